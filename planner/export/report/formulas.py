"""Formulas of the report with the plan's own numbers put in; each line can be checked with a pocket calculator."""

from __future__ import annotations

from collections.abc import Iterator

from planner.export.answers import counted
from planner.export.report.blocks import Block, Table
from planner.search.headline import sig3
from planner.search.in_flight import COUNTED, little
from planner.search.plan_schema import Candidate, Plan


def formulas(plan: Plan, c: Candidate) -> Iterator[Block]:
    """One table: figure, formula, numbers, source."""
    rows = [row for row in (_cost(c), _little(plan, c), _per_user(c), *_memory(c), *_steps(c)) if row is not None]
    yield Table(("figure", "formula", "with the numbers", "source"), tuple(rows), 4)


Row = tuple[str, str, str, str]


def _cost(c: Candidate) -> Row | None:
    if c.usd_per_hour is None or c.usd_per_mtok.output is None:
        return None
    rate = c.output_tokens_per_s_per_gpu
    return (
        "USD per million output tokens",
        "USD per hour × 10^6 / (output tokens/s per GPU × GPUs × 3600)",
        f"{sig3(c.usd_per_hour)} × 10^6 / ({sig3(rate)} × {c.gpus:,} × 3600) = {sig3(c.usd_per_mtok.output)}",
        "rent of whole nodes, spares included, over the output tokens",
    )


LITTLE = {
    "workers": "requests/s × (whole request - wait before the first step - time outside the steps)",
    "decode": "requests/s × (whole request - TTFT)",
    "loop": "requests/s × (TTFT + output tokens after the first × TPOT)",
}


def _little(plan: Plan, c: Candidate) -> Row | None:
    law = little(plan.scenario, c)
    if law is None:
        return None
    sign = " + " if law.counted == "loop" else " - "
    stay = sign.join(f"{_exact(part)} s" for part in law.parts)
    return (
        COUNTED[law.counted],
        LITTLE[law.counted],
        f"{_exact(law.rate_rps)} × ({stay}) = {counted(law.requests)}",
        "J. D. C. Little, Operations Research 9 (1961)",
    )


def _exact(value: float) -> str:
    """To the sixth decimal: differences of times keep their three digits."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _per_user(c: Candidate) -> Row | None:
    if c.tpot_ms.mean is None or c.output_tokens_per_s_per_user is None:
        return None
    return (
        "output tokens/s per user",
        "1000 / TPOT in ms",
        f"1000 / {sig3(c.tpot_ms.mean)} = {sig3(c.output_tokens_per_s_per_user)}",
        "definition",
    )


def _memory(c: Candidate) -> Iterator[Row]:
    m = c.memory_gib
    terms = [getattr(m, t) for t in ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")]
    yield (
        "memory of the fullest GPU",
        "weights + KV + workspace + collectives + graphs + runtime + margin",
        f"{' + '.join(sig3(v) for v in terms)} = {sig3(m.total)} of {sig3(m.capacity)} GiB",
        "the engine gives KV what the other terms leave of the memory it may use",
    )


def _steps(c: Candidate) -> Iterator[Row]:
    for phase, total in c.breakdown.step_ms.items():
        terms = [t for t in c.breakdown.phase(phase) if t.exposed_ms > 0]
        if not terms:
            continue
        names = " + ".join(t.term.replace("_", " ") for t in terms)
        yield (
            f"{phase} step",
            names,
            f"{' + '.join(sig3(t.exposed_ms) for t in terms)} = {sig3(total)} ms",
            "exposed times of the operators: the longest chain of the step",
        )
