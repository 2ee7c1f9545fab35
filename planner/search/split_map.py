"""Where separate prefill and decode pools start to pay: both kinds of plan over prompt length and rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from planner.catalog.loader import Catalog
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InputError
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Plan
from planner.search.planning import plan

Winner = Literal["agg", "disagg", "none"]

LARGE_TRANSFER = 0.25
"""Part of the aggregated TTFT above which a KV transfer is what speaks against splitting."""


@dataclass(frozen=True)
class SplitCell:
    """One prompt length at one rate."""

    input_tokens: int
    rate_rps: float
    winner: Winner
    aggregated: Candidate | None
    disaggregated: Candidate | None
    saving: float | None
    """1 - disaggregated / aggregated in what decides (dollars per hour, GPUs where a price is not known or none is
    asked): positive where splitting pays; None without both, and where only aggregated serving is free."""
    reason: str


def split_map(
    scenario: Scenario,
    input_tokens: Sequence[int],
    rates_rps: Sequence[float],
    catalog: Catalog | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[SplitCell, ...]:
    """Cells in order of length, then rate; every other part of the question is the scenario's.

    Prompts have a fixed length in each cell. ``progress(done, all)`` is called after each. Raises InputError for an
    empty axis or a closed loop.
    """
    if not input_tokens or not rates_rps:
        raise InputError("split_map", (list(input_tokens), list(rates_rps)), "at least one length and one rate")
    if scenario.workload.arrival.rate() is None:
        raise InputError("workload.arrival", scenario.workload.arrival.kind, "an offered rate: poisson, gamma or trace")
    known = catalog or open_catalog()
    cells, whole = [], len(input_tokens) * len(rates_rps)
    for tokens in input_tokens:
        for rate in rates_rps:
            found = {mode: plan(_asked(scenario, tokens, rate, mode), known) for mode in ("agg", "disagg")}
            cells.append(split_cell(tokens, rate, found["agg"], found["disagg"]))
            if progress is not None:
                progress(len(cells), whole)
    return tuple(cells)


def _asked(scenario: Scenario, tokens: int, rate: float, mode: str) -> Scenario:
    data = scenario.to_dict()
    cv = scenario.workload.arrival.gap_cv()
    data["workload"]["input_tokens"] = {"kind": "fixed", "tokens": int(tokens)}
    data["workload"]["arrival"] = {"kind": "gamma", "rate_rps": float(rate), "cv": float(cv or 1.0)}
    data["search"]["serving"] = [mode]
    if mode == "agg" and not data["hardware"].get("candidates"):
        raise InputError("hardware.candidates", [], "node types for aggregated workers beside the pools")
    return Scenario.from_dict(data)


def split_cell(tokens: int, rate: float, first: Plan, second: Plan) -> SplitCell:
    """What the aggregated and the split plan of a cell come to, and why."""
    a, d = first.best, second.best
    if a is None or d is None:
        winner: Winner = "none" if a is d else ("disagg" if a is None else "agg")
        missing = " and ".join(
            f"{name}: {_why(p)}" for name, p in (("aggregated", first), ("split", second)) if not p.best
        )
        return SplitCell(int(tokens), float(rate), winner, a, d, None, missing)
    together, apart = costs(a, d)
    if not together:
        reason = f"aggregated serving costs no rent and separate pools do: {_sides(a, d)}"
        return SplitCell(int(tokens), float(rate), "agg", a, d, None, reason)
    saving = 1.0 - apart / together
    return SplitCell(int(tokens), float(rate), "disagg" if saving > 0 else "agg", a, d, saving, _reason(a, d, saving))


def costs(a: Candidate, d: Candidate) -> tuple[float, float]:
    """Dollars per hour of both, or GPUs of both where a price is not known or nothing costs any."""
    if a.usd_per_hour is None or d.usd_per_hour is None or a.usd_per_hour == d.usd_per_hour == 0:
        return float(a.gpus), float(d.gpus)
    return float(a.usd_per_hour), float(d.usd_per_hour)


def nodes_of(c: Candidate) -> int | None:
    """Nodes of a candidate, of both its pools where it has two; None where they are not known."""
    if c.nodes is not None:
        return c.nodes
    pools = [p.nodes for p in (c.prefill_pool, c.decode_pool) if p is not None]
    known = [n for n in pools if n is not None]
    return sum(known) if pools and len(known) == len(pools) else None


def _why(p: Plan) -> str:
    if not p.rejected:
        return "no layout is possible"
    return max(p.rejected, key=lambda r: r.count).example


def _reason(a: Candidate, d: Candidate, saving: float) -> str:
    """What decides, in one sentence."""
    gap, split_gap = a.tbt_ms.p99 or 0.0, d.tbt_ms.p99 or 0.0
    figures = f"{_sides(a, d)}; TBT P99 {gap:,.0f} and {split_gap:,.0f} ms"
    billed = _sides(a, d).startswith("$")  # in money, which is that of whole nodes
    whole = (d.gpus - a.gpus) * -saving <= 0.0 and d.gpus != a.gpus and billed
    if saving > 0:
        return f"prompts no longer interrupt decodes, so workers run fuller: {figures}"
    if d.kv_transfer_ms and a.ttft_ms.mean and d.kv_transfer_ms > LARGE_TRANSFER * a.ttft_ms.mean:
        return f"the KV transfer of {d.kv_transfer_ms:,.0f} ms eats the gain: {figures}"
    if saving == 0.0 and whole:
        return f"both cost the same, as whole nodes are billed, and one kind of worker is simpler: {figures}"
    if saving < 0.0 and billed and d.gpus <= a.gpus:
        if d.shared_nodes is None:
            return f"each pool is billed in whole nodes, which costs more: {figures}"
        return f"whole nodes are billed, and two pools fill them less well: {figures}"
    if saving == 0.0:
        return f"both cost the same, and one kind of worker is simpler: {figures}"
    return f"two pools cannot fill each other's idle time: {figures}"


def _sides(a: Candidate, d: Candidate) -> str:
    """What both cost in the currency that decides, with the nodes that are billed."""
    nodes, apart = nodes_of(a), nodes_of(d)
    priced = a.usd_per_hour is not None and d.usd_per_hour is not None and (a.usd_per_hour or d.usd_per_hour)
    if not priced or nodes is None or apart is None:
        return f"{a.gpus:,} GPUs aggregated, {d.gpus:,} split"
    first = f"${a.usd_per_hour:,.2f} an hour aggregated ({a.gpus:,} GPUs on {nodes:,} node{_s(nodes)})"
    return f"{first}, ${d.usd_per_hour:,.2f} split ({d.gpus:,} GPUs on {apart:,} node{_s(apart)})"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
