"""A sweep's rows for people."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cli.output import console, table
from planner.search.headline import sig3
from planner.search.record import Record

COLUMNS = ("name", "status", "layout", "GPUs", "TTFT ms", "TPOT ms", "tokens/s per GPU", "USD per Mtok out")


def render_sweep(rows: Sequence[Record]) -> None:
    """One line a scenario; the message where there is no answer."""
    lines = []
    for row in rows:
        words = (str(row["name"]), str(row["status"]), str(row["layout"] or row["message"] or ""))
        figures = ("gpus", "ttft_mean_ms", "tpot_mean_ms", "output_tokens_per_s_per_gpu", "usd_per_mtok_output")
        lines.append((*words, *(_figure(row, key) for key in figures)))
    console().print(table(None, COLUMNS, lines, text=3))


def _figure(row: Record, key: str) -> str:
    value = row[key]
    return sig3(float(value)) if isinstance(value, int | float) else "–"
