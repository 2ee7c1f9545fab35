"""A plan in one sentence: the same words on screen, in the terminal and in a report."""

from __future__ import annotations

from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Interval, Plan, Pool
from planner.search.rejections import told_apart
from planner.units import half_up

BINDING = {
    "slo_ttft": "the limit on TTFT",
    "slo_tbt": "the limit on TBT",
    "slo_tpot": "the limit on TPOT",
    "slo_e2e": "the limit on whole requests",
    "completion": "the completion rate",
    "nodes": "the number of nodes",
    "rate": "the load",
    "kv_cache": "memory for the KV cache",
}
"""Reasons in words, where their name is none."""


def sig3(value: float | None) -> str:
    """Three significant digits without exponent (``1,230``, ``0.412``); an en dash where there is no number."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-6:
        return f"{value:.2e}"
    rounded = half_up(value, 3)
    return f"{rounded:,.0f}" if abs(value) >= 1000 else f"{rounded:,.9f}".rstrip("0").rstrip(".")


def with_interval(value: float | None, interval: Interval | None) -> str:
    """``43.1 (38.0–49.2)``: the value and its 80 % interval."""
    if value is None or interval is None:
        return sig3(value)
    return f"{sig3(value)} ({sig3(interval.low80)}–{sig3(interval.high80)})"


def workers_text(count: int, layout: str) -> str:
    """``5 replicas × (TP8 EP8)``."""
    return f"{count} replica{'s' if count != 1 else ''} × ({layout})"


def gpus_text(candidate: Candidate) -> str:
    """GPUs in use, and those that are paid for where these are others: ``100 (144 paid)``."""
    paid = candidate.gpus_paid
    return f"{candidate.gpus:,}" + (f" ({paid:,} paid)" if paid is not None and paid != candidate.gpus else "")


def deployment(candidate: Candidate, spare_nodes: int = 0, *, paid: bool = False) -> str:
    """Hardware, GPUs and layout: ``5 × dgx-h200 · 40 GPUs = 5 replicas × (TP8 EP8) · aggregated``.

    ``spare_nodes`` are among the nodes, and told apart: no GPU of theirs serves. With ``paid``, GPUs that are paid for
    are named where they are others than those in use: whole nodes, and spare ones.
    """
    gpus = _gpus(candidate.gpus)
    if paid and candidate.gpus_paid not in (None, candidate.gpus):
        gpus = f"{candidate.gpus_paid:,} GPUs paid for, {candidate.gpus:,} used"
    if candidate.prefill_pool is not None and candidate.decode_pool is not None:
        pools = [_pool("prefill", candidate.prefill_pool), _pool("decode", candidate.decode_pool)]
        spares = f" + {spare_nodes:,} spare node{'s' if spare_nodes != 1 else ''}" if spare_nodes else ""
        if spares and candidate.shared_nodes is None:
            spares += " for each"
        return f"{gpus} = {' + '.join(pools)}{spares} · disaggregated"
    hardware = f"{candidate.nodes:,} × {candidate.node}" if candidate.nodes is not None else candidate.node
    if spare_nodes:
        hardware += f" ({spare_nodes:,} of them spare)"
    layout = candidate.layout.describe()
    return f"{hardware} · {gpus} = {workers_text(candidate.replicas, layout)} · aggregated"


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'s' if count != 1 else ''}"


def _pool(name: str, pool: Pool) -> str:
    return f"{name} {pool.workers} × ({pool.layout.describe()}) on {pool.node}"


def headline(plan: Plan) -> str:
    """The answer in one sentence; without a feasible candidate, what binds and the nearest miss."""
    best = plan.best
    scenario = plan.scenario
    if best is None:
        why = _main_reason(plan)
        near = f" Nearest: {plan.nearest_misses[0].text}" if plan.nearest_misses else ""
        return f"Nothing serves {scenario.model} as asked: {why}{near}"
    return in_one_sentence(best, scenario)


def ranked_by(plan: Plan) -> str:
    """What ranks the candidates: the objective, or what takes its place where no price is known. Candidates without a
    price come last, so that where the best has none, no other has one.
    """
    if plan.scenario.objective == "lowest_cost" and plan.best is not None and plan.best.usd_per_hour is None:
        return "fewest GPUs, as no price is known"
    return plan.scenario.objective.replace("_", " ")


def in_one_sentence(best: Candidate, scenario: Scenario) -> str:
    """A candidate with its times, its output and its cost; what speaks against believing them as a further sentence."""
    figures = [
        f"TTFT {with_interval(best.ttft_ms.mean, best.interval.get('ttft_ms'))} ms",
        f"TPOT {with_interval(best.tpot_ms.mean, best.interval.get('tpot_ms'))} ms",
        f"{sig3(best.output_tokens_per_s_per_gpu)} output tokens/s per GPU",
    ]
    if best.usd_per_mtok.output is not None:
        usd = with_interval(best.usd_per_mtok.output, best.interval.get("usd_per_mtok"))
        figures.append(f"${usd} per million output tokens{_over_the_day(best.usd_per_mtok.output, scenario)}")
    deployed = deployment(best, scenario.reliability.spare_nodes, paid=True)
    cautions = "".join(f" Caution: {text}." for text in best.evidence.cautions)
    return f"{deployed} serves {scenario.model}: {', '.join(figures)}.{cautions}"


def _over_the_day(usd: float, scenario: Scenario) -> str:
    """That a price is the busiest hour's, and what it comes to over the day, where the load of the day is known."""
    profile = scenario.workload.daily_profile
    if profile is None:
        return ""
    return f" in the busiest hour, ${sig3(usd / profile.mean_over_peak)} over the day at fixed size"


def _main_reason(plan: Plan) -> str:
    """What binds: the reason of what comes nearest, whatever fails more often on the way there."""
    if not plan.rejected:
        return "no layout is possible on the hardware given."
    first = plan.nearest_misses[0] if plan.nearest_misses else max(plan.rejected, key=lambda r: r.count)
    needed = ""
    if first.needed is not None and first.available is not None:
        unit = f" {first.unit}" if first.unit else ""
        want, have = told_apart(first.needed, first.available)
        again = "" if first.unit in ("nodes", "GPUs") else unit
        needed = f" ({want}{unit} needed, {have}{again} available)"
        if first.reason.startswith("slo_"):
            needed = f" (predicted {want}{unit}, limit {have}{unit})"
        elif first.reason == "rate":
            needed = f" ({want}{unit} asked, {have}{unit} reached)"
        elif first.reason == "completion":
            needed = f" ({want} asked, {have} reached)"
    return f"{BINDING.get(first.reason, first.reason.replace('_', ' '))} binds{needed}."
