"""Makes examples/procurement.xlsx: twelve options of model x GPU x load, side by side, with live prices.

    python examples/procurement.py examples/procurement.xlsx

The sheet Scenarios is also an input of ``planner sheet run``: change a row and run it again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planner import sheet
from planner.export.workbook.comparison import write_comparison

LOADS = (2, 20)
"""Requests per second."""
CHOICES = (
    ("llama-3.3-70b", "dgx-h100", "vllm", "fp8"),
    ("llama-3.3-70b", "dgx-h200", "vllm", "fp8"),
    ("llama-3.3-70b", "mi300x-8", "vllm", "fp8"),
    ("deepseek-r1", "dgx-h200", "sglang", None),
    ("deepseek-r1", "dgx-b200", "sglang", None),
    ("gpt-oss-120b", "dgx-h100", "vllm", None),
)


def options() -> list[dict[str, Any]]:
    """Twelve scenarios: six pairs of model and hardware under two loads, 1,500 tokens in and 500 out."""
    return [
        {
            "model": model,
            "node": node,
            "engine": engine,
            "precision": precision,
            "input_tokens": 1500,
            "output_tokens": 500,
            "rate_rps": rate,
            "ttft_limit_ms": 2000,
            "tpot_limit_ms": 50,
            "usd_per_gpu_hour": None,  # the catalogue's; a place for the buyer's own
        }
        for rate in LOADS
        for model, node, engine, precision in CHOICES
    ]


if __name__ == "__main__":
    write_comparison(sheet.plan_table(options()), Path(sys.argv[1]))
