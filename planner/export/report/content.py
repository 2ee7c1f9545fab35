"""The report's content: the question, the answer, why, how sure, and with what it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.export.answers import best_text, counted, headline_of, identity_of, layout_text, point_layout
from planner.export.report import svg
from planner.export.report.blocks import Block, Bullets, Code, Paragraph, Picture, Report, Section, Table
from planner.export.report.formulas import formulas
from planner.export.report.sizing import admission_blocks, sizing_blocks
from planner.export.roles import pick
from planner.scenario.identity import Identity
from planner.scenario.safe_yaml import dump_yaml
from planner.search.alike import apart, apart_text
from planner.search.headline import gpus_text, headline, sig3, with_interval
from planner.search.in_flight import COUNTED, set_to_run
from planner.search.in_flight import counted as counted_in
from planner.search.plan_schema import Candidate, Interval, Phase, Plan

LISTED = 10
"""Candidates and frontier points in the tables."""
MEMORY_TERMS = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin", "total", "capacity")
UNITS = {
    "ttft_ms": "ms",
    "tbt_ms": "ms",
    "tpot_ms": "ms",
    "output_tokens_per_s_per_gpu": "tokens/s per GPU",
    "usd_per_mtok": "USD per million output tokens",
    "joules_per_token": "J per output token",
}


def report(plan: Plan, rank: int = 1) -> Report:
    """The report on candidate ``rank``; a plan without candidates gets the reasons and nearest misses instead."""
    chosen = pick(plan, rank) if plan.candidates else None
    sections = [Section("Answer", tuple(_answer(plan, chosen)))]
    if chosen is not None:
        sections += [
            Section("Service levels", tuple(_levels(chosen))),
            Section("Candidates", (_candidates(plan),)),
            Section("Frontier", tuple(_frontier(plan))),
            Section("Where the time goes", tuple(_breakdown(chosen))),
            Section("Memory of the fullest GPU", (_memory(chosen),)),
            *_served(chosen),
            Section("Formulas with their values", tuple(formulas(plan, chosen))),
            Section("How sure", tuple(_certainty(chosen))),
        ]
    sections += [
        Section("Why not the others", tuple(_reasons(plan))),
        Section("Assumptions", (Bullets(plan.assumptions),) if plan.assumptions else (Paragraph("None."),)),
        Section("Identity", (_identity(plan.identity if chosen is None else identity_of(plan, chosen)),)),
        Section("Scenario", (Code(dump_yaml(plan.scenario.to_dict())),)),
        Section("Versions", (Paragraph(_versions(plan)),)),
    ]
    return Report(plan.scenario.name, tuple(sections))


def _answer(plan: Plan, chosen: Candidate | None) -> Iterator[Block]:
    yield Paragraph(headline(plan) if chosen is None else headline_of(plan, chosen), strong=True)
    if chosen is not None and chosen is not plan.best:
        yield Paragraph(best_text(plan, chosen))
    if plan.scenario.description:
        yield Paragraph(plan.scenario.description)
    if chosen is None:
        return
    yield Paragraph(f"Bound by: {chosen.binding}.")
    rows = [
        ("GPUs in use", f"{chosen.gpus:,}"),
        ("GPUs paid for: whole nodes, spares included", _number(chosen.gpus_paid)),
        ("nodes, spares included", _number(chosen.nodes)),
        ("requests per second within every limit", counted(chosen.goodput_rps)),
        (COUNTED[counted_in(plan.scenario, chosen)], counted(chosen.concurrency)),
        ("requests that the engines are set to run at once", _number(set_to_run(chosen))),
        ("requests that memory would hold", counted(chosen.max_concurrency)),
        ("output tokens/s per user", counted(chosen.output_tokens_per_s_per_user)),
        ("USD per hour", sig3(chosen.usd_per_hour)),
        ("USD per million input tokens, cached ones included", sig3(chosen.usd_per_mtok.input)),
        ("USD per million uncached input tokens", sig3(chosen.usd_per_mtok.uncached_input)),
        ("USD per million output tokens, all cost on output", sig3(chosen.usd_per_mtok.output)),
        *_over_the_day(plan, chosen),
        ("J per output token", sig3(chosen.joules_per_token)),
    ]
    yield Table(("figure", "value"), tuple(rows))
    if chosen.explanation:
        yield Bullets(chosen.explanation)


def _over_the_day(plan: Plan, c: Candidate) -> Iterator[tuple[str, str]]:
    """What a token costs over the day, where the prices before it are those of its busiest hour."""
    profile, usd = plan.scenario.workload.daily_profile, c.usd_per_mtok.output
    if profile is not None and usd is not None:
        share = profile.mean_over_peak
        yield (
            f"the same over the day, fleet of fixed size; the prices above are of the busiest hour, the mean load is "
            f"{share:.0%} of it",
            sig3(usd / share),
        )


def _served(c: Candidate) -> Iterator[Section]:
    if c.admission is not None:
        yield Section("Admission", tuple(admission_blocks(c.admission, c.priorities)))
    if c.sizing is not None:
        yield Section("Size, failures and recovery", tuple(sizing_blocks(c.sizing)))


def _levels(c: Candidate) -> Iterator[Block]:
    rows = []
    for name in ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms"):
        p = getattr(c, name)
        rows.append((name, *(sig3(v) for v in (p.mean, p.p50, p.p90, p.p95, p.p99)), _range(c.interval.get(name))))
    yield Table(("metric", "mean", "p50", "p90", "p95", "p99", "80 % interval"), tuple(rows))
    if c.kv_transfer_ms is not None:
        yield Paragraph(f"Exposed KV transfer of a request: {sig3(c.kv_transfer_ms)} ms.")
    if not c.slo:
        yield Paragraph("No limit is asked.")
        return
    checks = [
        (
            f"{s.metric} {s.percentile}",
            s.judged_on,
            "yes" if s.met else "no",
            {True: "yes", False: "no", None: "–"}[s.met_at_80],
            sig3(s.limit),
            sig3(s.value),
        )
        for s in c.slo
    ]
    columns = ("limit", "judged on", "met", "met at the interval's upper end", "limit value", "predicted")
    yield Table(columns, tuple(checks), 4)


def _candidates(plan: Plan) -> Table:
    shown = plan.candidates[:LISTED]
    differing = apart(shown)
    rows = [
        (
            str(c.rank),
            c.serving,
            c.node,
            layout_text(c) + apart_text(differing.get(c.rank)),
            gpus_text(c),
            str(c.replicas),
            with_interval(c.ttft_ms.mean, c.interval.get("ttft_ms")),
            with_interval(c.tpot_ms.mean, c.interval.get("tpot_ms")),
            sig3(c.output_tokens_per_s_per_gpu),
            with_interval(c.usd_per_mtok.output, c.interval.get("usd_per_mtok")),
        )
        for c in shown
    ]
    columns = (
        *("#", "serving", "node", "layout", "GPUs", "replicas"),
        *("TTFT ms", "TPOT ms", "tokens/s per GPU", "USD per Mtok out"),
    )
    return Table(columns, tuple(rows), 4)


def _frontier(plan: Plan) -> Iterator[Block]:
    points = list(plan.pareto)
    if not points:
        yield Paragraph("No point is on the frontier.")
        return
    rows = [
        (
            "–" if p.rank is None else str(p.rank),
            p.serving,
            p.node,
            point_layout(plan, p),
            f"{p.gpus:,}",
            sig3(p.ttft_ms),
            sig3(p.tpot_ms),
            sig3(p.output_tokens_per_s_per_gpu),
            sig3(p.usd_per_mtok_output),
        )
        for p in points[:LISTED]
    ]
    columns = ("#", "serving", "node", "layout", "GPUs", "TTFT ms", "TPOT ms", "tokens/s per GPU", "USD per Mtok out")
    table = Table(columns, tuple(rows), 4)
    plotted = [
        (
            p.tpot_ms,
            p.output_tokens_per_s_per_gpu,
            f"{p.node} {point_layout(plan, p)}, {p.gpus} GPUs",
            p.rank is not None,
        )
        for p in points
    ]
    yield Picture(
        svg.scatter(plotted, "TPOT in ms", "output tokens/s per GPU"),
        f"{len(points)} points that nothing beats in every respect; filled ones are listed among the candidates.",
    )
    if len(points) > LISTED:
        yield Paragraph(f"The first {LISTED} of {len(points)} points:")
    yield table


def _breakdown(c: Candidate) -> Iterator[Block]:
    phases: tuple[Phase, ...] = ("decode", "prefill", "mixed")
    for phase in phases:
        terms = c.breakdown.phase(phase)
        if not terms:
            continue
        total = c.breakdown.step_ms.get(phase)
        table = Table(
            ("operator", "bound by", "exposed ms", "hidden ms", "share"),
            tuple(
                (_words(t.term), t.bound or "–", sig3(t.exposed_ms), sig3(t.hidden_ms), f"{t.share:.1%}") for t in terms
            ),
            2,
        )
        rows = [(_words(t.term), t.exposed_ms, t.hidden_ms) for t in terms]
        yield Picture(svg.bars(rows, "ms"), f"One {phase} step: {sig3(total)} ms on the critical path.", table)


def _memory(c: Candidate) -> Table:
    pools = [("GiB", c.memory_gib)]
    if c.prefill_pool is not None and c.prefill_pool.memory_gib is not None:
        pools = [("decode pool GiB", c.memory_gib), ("prefill pool GiB", c.prefill_pool.memory_gib)]
    rows = tuple((_words(name), *(sig3(getattr(m, name)) for _, m in pools)) for name in MEMORY_TERMS)
    return Table(("term", *(title for title, _ in pools)), rows)


def _certainty(c: Candidate) -> Iterator[Block]:
    if c.evidence.distance:
        yield Paragraph(f"Nearest evidence: {c.evidence.distance}.")
    rows = []
    for name, unit in UNITS.items():
        i = c.interval.get(name)
        if i is not None:
            rows.append((name, unit, _range(i), "–" if i.low50 is None else f"{sig3(i.low50)}–{sig3(i.high50)}"))
    if rows:
        yield Table(("figure", "unit", "80 % of the time in", "50 % of the time in"), tuple(rows), 2)
    if c.evidence.marks:
        yield Paragraph("Extrapolated:")
        yield Bullets(tuple(f"{m.subject}: {m.text}" for m in c.evidence.marks))


def _reasons(plan: Plan) -> Iterator[Block]:
    yield Paragraph(f"{plan.evaluated:,} operating points were evaluated, {plan.feasible:,} are feasible.")
    rows = [
        (
            _words(r.reason),
            r.example,
            r.fix or "–",
            f"{r.count:,}",
            _with_unit(r.needed, r.unit),
            _with_unit(r.available, r.unit),
        )
        for r in plan.rejected
    ]
    if rows:
        yield Table(
            ("reason", "nearest to fitting", "smallest change", "refused", "needed", "available"), tuple(rows), 3
        )
    if plan.nearest_misses:
        yield Paragraph("Nearest misses:")
        yield Bullets(tuple(m.text + (f"; change: {m.fix}" if m.fix else "") for m in plan.nearest_misses))


def _identity(identity: Identity) -> Table:
    flat: dict[str, Any] = identity.flat()
    return Table(("key", "value"), tuple((k, "–" if v is None else str(v)) for k, v in flat.items()), 2)


def _versions(plan: Plan) -> str:
    v = plan.versions
    return f"planner {v.planner}, catalogue {v.catalogue}, coefficients {v.coefficients}"


def _range(interval: Interval | None) -> str:
    return "–" if interval is None else f"{sig3(interval.low80)}–{sig3(interval.high80)}"


def _with_unit(value: float | None, unit: str | None) -> str:
    return sig3(value) if value is None or not unit else f"{sig3(value)} {unit}"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _words(name: str) -> str:
    return name.replace("_", " ")
