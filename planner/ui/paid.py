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
        total += nodes * (scenario.hardware.gpus_of(node) or catalog.node(node).gpus)
    return total
