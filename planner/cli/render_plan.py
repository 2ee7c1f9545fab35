"""A plan for people: the answer, candidates, where time and memory go, why others fail, what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli.output import console, table
from planner.search.alike import apart, apart_text
from planner.search.headline import gpus_text, headline, ranked_by, sig3, with_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from planner.search.plan_schema import Candidate, MemoryGib, Percentiles, Plan, PriorityLatency, SloCheck

MEMORY_TERMS = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")


def render_plan(plan: Plan, top: int) -> None:
    """Prints ``plan`` with at most ``top`` candidates."""
    out = console()
    out.print(headline(plan), style="bold", markup=False, soft_wrap=True)
    best = plan.best
    if best is not None:
        out.print(f"Bound by: {best.binding}", markup=False, soft_wrap=True)
        for sentence in best.explanation:
            out.print(f"  {sentence}", markup=False, soft_wrap=True)
        out.print(candidate_table(plan, top))
        if best.slo:
            out.print(slo_table(best.slo))
        if best.priorities:
            out.print(class_table(best.priorities))
        render_breakdown(out, best)
        render_memory(out, best)
    out.print(
        f"{plan.evaluated:,} operating points evaluated, {plan.feasible:,} feasible, "
        f"{len(plan.pareto):,} on the frontier."
    )
    if plan.nearest_misses:
        out.print(misses_table(plan))
    if plan.rejected:
        out.print(rejection_table(plan))
    if best is not None and best.evidence.marks:
        out.print("Extrapolated", style="bold")
        for mark in best.evidence.marks:
            out.print(f"  ! {mark.subject}: {mark.text}", markup=False, soft_wrap=True)
    if plan.assumptions:
        out.print("Assumptions", style="bold")
        for text in plan.assumptions:
            out.print(f"  · {text}", markup=False, soft_wrap=True)
    v = plan.versions
    out.print(f"planner {v.planner} · catalogue {v.catalogue} · coefficients {v.coefficients}", style="dim")


def candidate_table(plan: Plan, top: int) -> Table:
    """The best candidates; a ``!`` behind the rank marks extrapolated numbers."""
    shown = plan.candidates[:top]
    title = f"Candidates by {ranked_by(plan)}"
    if len(plan.candidates) > len(shown):
        title += f" ({len(shown)} of {len(plan.candidates)} shown)"
    columns = (
        *("#", "layout", "serving", "node", "GPUs", "replicas", "in workers"),
        *("TTFT ms", "TPOT ms", "goodput req/s", "out tok/s/GPU", "$/Mtok out", "J/tok", "KV GiB"),
    )
    differing = apart(shown)
    return table(title, columns, (_candidate_row(c, apart_text(differing.get(c.rank))) for c in shown), text=4)


def _candidate_row(c: Candidate, settings: str) -> tuple[str, ...]:
    layout = c.layout.describe()
    if c.prefill_pool is not None:
        layout = f"P {c.prefill_pool.workers} × ({c.prefill_pool.layout.describe()}) D {c.replicas} × ({layout})"
    return (
        f"{c.rank}{'!' if c.evidence.extrapolated else ''}",
        layout + settings,
        c.serving,
        c.node,
        gpus_text(c),
        f"{c.replicas:,}",
        sig3(c.concurrency),
        with_interval(c.ttft_ms.mean, c.interval.get("ttft_ms")),
        with_interval(c.tpot_ms.mean, c.interval.get("tpot_ms")),
        sig3(c.goodput_rps),
        sig3(c.output_tokens_per_s_per_gpu),
        sig3(c.usd_per_mtok.output),
        sig3(c.joules_per_token),
        sig3(c.memory_gib.kv),
    )


def slo_table(checks: tuple[SloCheck, ...]) -> Table:
    """Every limit of the SLO, what it was judged on, and whether it holds."""
    rows = (
        (
            f"{c.metric} {c.percentile}",
            f"judged on {c.judged_on}",
            "met" if c.met else "missed",
            "–" if c.met_at_80 is None else ("met" if c.met_at_80 else "missed"),
            sig3(c.limit),
            sig3(c.value),
        )
        for c in checks
    )
    return table("SLO", ("limit on", "", "expected", "at 80 %", "limit", "predicted"), rows, text=4)


CLASS_LEVELS = ("mean", "p50", "p95", "p99")


def class_table(classes: tuple[PriorityLatency, ...]) -> Table:
    """Wait and TTFT of each priority class, most urgent first."""
    columns = ("class", "priority", "share", *(f"{m} {p} ms" for m in ("wait", "TTFT") for p in CLASS_LEVELS))
    rows = (
        (c.name, f"{c.priority}", f"{100 * c.share:.3g} %", *_class_times(c.wait_ms), *_class_times(c.ttft_ms))
        for c in classes
    )
    return table("Priority classes", columns, rows, text=1)


def _class_times(found: Percentiles) -> tuple[str, ...]:
    return tuple(sig3(getattr(found, level)) for level in CLASS_LEVELS)


def render_breakdown(out: Console, best: Candidate) -> None:
    """Where the time of a step goes, one table per phase."""
    for phase, step_ms in best.breakdown.step_ms.items():
        terms = best.breakdown.phase(phase)
        if not terms:
            continue
        rows = [(t.term, t.bound or "–", sig3(t.exposed_ms), sig3(t.hidden_ms), f"{100 * t.share:.1f}") for t in terms]
        columns = ("operator", "bound by", "exposed ms", "hidden ms", "% of step")
        out.print(table(f"A {phase} step: {sig3(step_ms)} ms", columns, rows, text=2))


def render_memory(out: Console, best: Candidate) -> None:
    """The fullest rank term by term; both pools where there are two."""
    if best.prefill_pool is not None and best.prefill_pool.memory_gib is not None:
        out.print(memory_table("Memory of the fullest prefill rank, GiB", best.prefill_pool.memory_gib))
        out.print(memory_table("Memory of the fullest decode rank, GiB", best.memory_gib))
    else:
        out.print(memory_table("Memory of the fullest rank, GiB", best.memory_gib))


def memory_table(title: str, memory: MemoryGib) -> Table:
    """Terms in one row, with their sum beside the capacity, and what is missing where it is more."""
    needed = needed_gib(memory.model_dump())
    if (missing := needed["total"] - needed["capacity"]) > FITS_GIB:
        needed["missing"] = missing
        title = f"{title}: needed"
    return table(title, tuple(needed), [tuple(sig3(v) for v in needed.values())], text=0)


FITS_GIB = 1e-6
"""Missing memory below which rounding speaks."""


def needed_gib(memory: Mapping[str, float]) -> dict[str, float]:
    """Terms of a budget that add up to its total: where memory is missing, the cache that is asked for in place of what
    the other terms leave, and no margin where they overrun it.
    """
    terms = {name: memory[name] for name in MEMORY_TERMS}
    if memory["total"] - memory["capacity"] > FITS_GIB:
        terms["margin"] = max(terms["margin"], 0.0)
        terms["kv"] = memory["total"] - sum(v for name, v in terms.items() if name != "kv")
    return {**terms, "total": memory["total"], "capacity": memory["capacity"]}


def rejection_table(plan: Plan) -> Table:
    """Why others fail, most frequent reason first."""
    rows = (
        (
            r.reason.replace("_", " "),
            r.example,
            r.fix or "–",
            f"{r.count:,}",
            _quantity(r.needed, r.unit),
            _quantity(r.available, r.unit),
        )
        for r in sorted(plan.rejected, key=lambda r: -r.count)
    )
    columns = ("reason", "nearest example", "smallest fix", "count", "needed", "available")
    return table("Why others fail", columns, rows, text=3)


def misses_table(plan: Plan) -> Table:
    """The nearest misses and what would mend them."""
    said: set[str] = set()

    def once(fix: str | None) -> str:
        if fix is None or fix not in said:
            said.add(fix or "")
            return fix or "–"
        return "the same"

    rows = (
        (
            f"{m.layout.describe()} on {m.node}, {m.serving}",
            m.text,
            once(m.fix),
            _quantity(m.needed, m.unit),
            _quantity(m.available, m.unit),
        )
        for m in plan.nearest_misses
    )
    columns = ("nearest misses", "why it fails", "what would fix it", "needed", "available")
    return table("Nearest misses", columns, rows, text=3)


def _quantity(value: float | None, unit: str | None) -> str:
    if value is None:
        return "–"
    exact = not unit and float(value).is_integer()  # a number of things
    return f"{int(value):,}" if exact else f"{sig3(value)} {unit or ''}".rstrip()
