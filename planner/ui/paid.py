"""GPUs that are paid for: whole nodes and spare ones, whether or not a worker uses all of their GPUs."""

from __future__ import annotations

from planner.catalog import Catalog
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate


def paid_gpus(scenario: Scenario, candidate: Candidate, catalog: Catalog) -> int | None:
    """GPUs of all nodes of a deployment, spares included; None where ``catalog`` does not know a node."""
    pools = [p for p in (candidate.prefill_pool, candidate.decode_pool) if p is not None]
    counted = [(candidate.node, candidate.nodes)]
    if len({p.node for p in pools}) > 1:
        spare = scenario.reliability.spare_nodes
        counted = [(p.node, None if p.nodes is None else p.nodes + spare) for p in pools]
    total = 0
    for node, nodes in counted:
        if nodes is None or node not in catalog.node_ids():
            return None
        total += nodes * _of_node(scenario, node, catalog)
    return total


def _of_node(scenario: Scenario, node: str, catalog: Catalog) -> int:
    """GPUs of one node that the scenario has in mind: those it names, else all."""
    pools = scenario.hardware.pools
    choices = (*scenario.hardware.candidates, *(() if pools is None else (*pools.prefill, *pools.decode)))
    named = next((c.gpus for c in choices if c.node == node and c.gpus is not None), None)
    return catalog.node(node).gpus if named is None else named
