"""A CSV of one's own: the columns of measured/e2e_runs.csv, of which tokens, concurrency and one time are a must."""

from __future__ import annotations

from planner.errors import InputError
from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord, Latency
from planner.evidence.importers.values import count, finite, percentile_of, text
from planner.evidence.runs import LAYOUT, MEASURED, POOL, SERVING, number_cell, once, used_columns
from planner.units import MILLISECOND

NAME = "CSV of runs"
_MUST = {"input_tokens", "output_tokens"}


def recognise(document: Document) -> bool:
    """A header with input_tokens, output_tokens and a time in ms."""
    if document.syntax != "csv" or not document.rows:
        return False
    names = {c.strip() for c in document.rows[0]}
    return names >= _MUST and any(c.endswith(("ttft_ms", "tpot_ms", "e2e_ms")) for c in names)


def read(document: Document) -> list[BenchRecord]:
    """One record a row; columns that are not known are left out.

    A row with a cell that means nothing is a refused record, the others are read. Raises InputError where a column is
    there twice.
    """
    header = [c.strip() for c in document.rows[0]]
    once(header, document.name)
    return [
        _row(header, [c.strip() for c in cells], f"row {i}")
        for i, cells in enumerate(document.rows[1:], start=1)
        if any(c.strip() for c in cells)
    ]


def _row(header: list[str], cells: list[str], where: str) -> BenchRecord:
    r = dict(zip(header, cells, strict=False))
    named = text(r.get("run_id")) or where
    serving = r.get("serving") or "agg"
    if serving not in SERVING:
        return BenchRecord(NAME, named, refused=f"serving: got {serving!r}; {' or '.join(SERVING)}")
    if len(cells) > len(header):
        return BenchRecord(NAME, named, refused=f"cells beyond the last column: {cells[len(header) :]!r}")
    checked = {name: number_cell(name, r.get(name)) for name in used_columns(serving) if name in r}
    problems = [problem for _, problem in checked.values() if problem]
    if problems:
        return BenchRecord(NAME, named, refused="; ".join(problems))
    try:
        record = _record(r, named, serving)
    except InputError as error:
        return BenchRecord(NAME, named, refused=str(error))
    unread = [name for name in MEASURED if r.get(name, "").lower() == "nan"]
    return record.warn(f"{', '.join(unread)} of nan: read as not measured") if unread else record


def _record(r: dict[str, str], where: str, serving: str) -> BenchRecord:
    shape = {n: count(r.get(n), n) for n in (POOL if serving == "disagg" else LAYOUT)}
    found = {m: _latency(r, m) for m in ("ttft", "tpot", "itl", "e2e")}
    return BenchRecord(
        format=NAME,
        where=where,
        model=text(r.get("model")),
        gpu=text(r.get("gpu")),
        engine=text(r.get("engine")),
        engine_version=text(r.get("engine_version")),
        precision=text(r.get("linear_precision")) or text(r.get("precision")),
        moe_precision=text(r.get("moe_precision")),
        kv_precision=text(r.get("kv_precision")),
        bench=text(r.get("bench")),
        serving=serving,
        layout={n: v for n, v in shape.items() if v is not None},
        speculative=r.get("speculative", "").strip() or None,
        input_tokens=finite(r.get("input_tokens"), "input_tokens"),
        output_tokens=finite(r.get("output_tokens"), "output_tokens"),
        concurrency=finite(r.get("concurrency"), "concurrency"),
        rate_rps=finite(r.get("rate_rps"), "rate_rps"),
        requests=count(r.get("requests"), "requests"),
        completed=count(r.get("completed"), "completed"),
        failed=count(r.get("failed"), "failed"),
        latency={m: v for m, v in found.items() if v is not None},
        request_rps=finite(r.get("request_rps"), "request_rps"),
        output_tokens_per_s=finite(r.get("output_tokens_per_s"), "output_tokens_per_s"),
    )


def _latency(r: dict[str, str], metric: str) -> Latency | None:
    """``ttft_ms`` or ``mean_ttft_ms``, and percentiles ``p99_ttft_ms``."""
    end = f"{metric}_ms"
    mean = finite(r.get(end) or r.get(f"mean_{end}"), end)
    percentiles: dict[float, float] = {}
    for key, value in r.items():
        p = percentile_of(key.removesuffix(f"_{end}")) if key.endswith(f"_{end}") else None
        found = None if p is None else finite(value, key)
        if p is not None and found is not None:
            percentiles[p] = found * MILLISECOND
    if mean is None and not percentiles:
        return None
    return Latency(None if mean is None else mean * MILLISECOND, None, percentiles)
