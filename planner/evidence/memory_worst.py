"""Start-ups whose cache is predicted worst, with every term beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.evidence.memory_validate import RowPrediction

WORST_ROWS = 10
RANKED_BY = ("available_kv_gib", "kv_cache_tokens", "max_concurrency", "weights_gib")
"""The first of these that a row measured says how far off it is."""


def worst_rows(predictions: Sequence[RowPrediction]) -> list[dict[str, Any]]:
    """The rows that ran and are furthest off, worst first: run_id, what it was, ``metric`` with its measured and
    predicted value, ``note``, and ``terms``, the others in GiB, each ``[measured, predicted]``, the one most off first.
    """
    found = []
    for p in predictions:
        metric = next((m for m in RANKED_BY if p.measured.get(m) and m in p.predicted), None)
        if metric is None or p.failed or p.reason:
            continue
        terms = {
            m: [p.measured[m], p.predicted[m]]
            for m in p.measured
            if m in p.predicted and m.endswith("_gib") and m != metric
        }
        measured, predicted = p.measured[metric], p.predicted[metric]
        row = {
            "run_id": p.run_id,
            "model": p.model,
            "gpu": p.gpu,
            "layout": p.layout,
            "engine_version": p.engine_version,
            "metric": metric,
            "measured": measured,
            "predicted": predicted,
            "note": p.note,
            "terms": dict(sorted(terms.items(), key=lambda term: -abs(term[1][1] - term[1][0]))),
        }
        found.append((abs(predicted / measured - 1), row))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])[:WORST_ROWS]]
