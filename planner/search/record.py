"""A plan as one flat row: what tables of scenarios (sheets, sweeps, comparisons) hold of it."""

from __future__ import annotations

from typing import Any

from planner.search.headline import headline
from planner.search.plan_schema import Candidate, Plan

Cell = str | int | float | bool | None
Record = dict[str, Cell]

RESULT_COLUMNS: dict[str, str] = {
    "status": "ok, infeasible or error.",
    "message": "Empty where ok; else why nothing serves the row, or what is wrong with it.",
    "gpus": "GPUs of the whole deployment, spares left out.",
    "nodes": "Nodes of the whole deployment, spares included.",
    "replicas": "Workers that serve the load (disaggregated: decode workers).",
    "prefill_workers": "Prefill workers where the pools are separate.",
    "serving_chosen": "agg or disagg.",
    "node_chosen": "Node type (disaggregated: of the decode pool).",
    "accelerator": "GPU.",
    "layout": "Layout of a worker (disaggregated: of a decode worker).",
    "prefill_layout": "Layout of a prefill worker where the pools are separate.",
    "concurrency_total": "Mean requests in the workers of the whole deployment (disagg: in the decode workers).",
    "ttft_mean_ms": "Time to first token in ms.",
    "ttft_low80_ms": "Lower end of its 80 % interval.",
    "ttft_high80_ms": "Upper end of its 80 % interval.",
    "tpot_mean_ms": "Time per output token in ms.",
    "tpot_low80_ms": "Lower end of its 80 % interval.",
    "tpot_high80_ms": "Upper end of its 80 % interval.",
    "goodput_rps": "Requests per second within every limit, whole deployment.",
    "output_tokens_per_s_per_gpu": "Output tokens per second and GPU in use.",
    "output_tokens_per_s_per_user": "Output tokens per second of one request.",
    "usd_per_hour": "Price of the whole deployment.",
    "usd_per_mtok_input": "USD per million input tokens.",
    "usd_per_mtok_output": "USD per million output tokens, all cost on output.",
    "joules_per_token": "Energy per output token in joules.",
    "extrapolated": "Whether anything lies outside the measured range.",
    "binding": "What binds.",
}
"""Columns of a result and what they mean, in order."""


def record(plan: Plan) -> Record:
    """The first candidate as a row of RESULT_COLUMNS; the reason in ``message`` where there is none."""
    best = plan.best
    if best is None:
        return blank("infeasible", headline(plan))
    return blank("ok", None) | _figures(best)


def blank(status: str, message: str | None) -> Record:
    """A row without figures."""
    empty: Record = dict.fromkeys(RESULT_COLUMNS)
    return empty | {"status": status, "message": message}


def _figures(c: Candidate) -> Record:
    ttft, tpot = c.interval.get("ttft_ms"), c.interval.get("tpot_ms")
    pool = c.prefill_pool
    return {
        "gpus": c.gpus,
        "nodes": c.nodes,
        "replicas": c.replicas,
        "prefill_workers": None if pool is None else pool.workers,
        "serving_chosen": c.serving,
        "node_chosen": c.node,
        "accelerator": c.accelerator,
        "layout": c.layout.describe(),
        "prefill_layout": None if pool is None else pool.layout.describe(),
        "concurrency_total": c.concurrency,
        "ttft_mean_ms": c.ttft_ms.mean,
        "ttft_low80_ms": None if ttft is None else ttft.low80,
        "ttft_high80_ms": None if ttft is None else ttft.high80,
        "tpot_mean_ms": c.tpot_ms.mean,
        "tpot_low80_ms": None if tpot is None else tpot.low80,
        "tpot_high80_ms": None if tpot is None else tpot.high80,
        "goodput_rps": c.goodput_rps,
        "output_tokens_per_s_per_gpu": c.output_tokens_per_s_per_gpu,
        "output_tokens_per_s_per_user": c.output_tokens_per_s_per_user,
        "usd_per_hour": c.usd_per_hour,
        "usd_per_mtok_input": c.usd_per_mtok.input,
        "usd_per_mtok_output": c.usd_per_mtok.output,
        "joules_per_token": c.joules_per_token,
        "extrapolated": c.evidence.extrapolated,
        "binding": c.binding,
    }


def formula_like(value: Any) -> bool:
    """Whether a spreadsheet would run text as a formula: it starts with = + - @, a tab or a line break."""
    return isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: Any) -> Any:
    """``value`` for a CSV file that spreadsheets open: text that would run as a formula gets an apostrophe in front."""
    return f"'{value}" if formula_like(value) else value
