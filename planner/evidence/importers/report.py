"""The validation report of a benchmark tool's result file: every record with its prediction or the reason for none."""

from __future__ import annotations

from collections import Counter
from typing import Any

from planner.catalog import Catalog
from planner.evidence.e2e_validate import validate_e2e
from planner.evidence.importers.reading import ImportedFile
from planner.evidence.importers.to_runs import Converted, Given, to_runs


def validate_results(imported: ImportedFile, given: Given, catalog: Catalog) -> dict[str, Any]:
    """A report in the keys of :func:`planner.evidence.e2e_validate.validate_e2e`, with ``format``, ``warnings`` (how
    often each was found) and ``assumptions``; ``predictions`` has one entry a record."""
    converted = to_runs(imported.records, given, catalog)
    report = validate_e2e(converted.runs, catalog) if len(converted.runs) else _nothing()
    left_out = Counter(reason for reason in converted.reasons if reason)
    return {
        **report,
        "rows": len(imported.records),
        "failed": dict(report["failed"]) | dict(left_out.most_common()),
        "format": imported.format,
        "warnings": dict(Counter(w for r in imported.records for w in r.warnings).most_common()) | report["warnings"],
        "assumptions": list(dict.fromkeys((*converted.assumptions, *report["assumptions"]))),
        "predictions": _predictions(imported, converted, report["predictions"]),
    }


def _nothing() -> dict[str, Any]:
    lists: dict[str, list[Any]] = {name: [] for name in ("assumptions", "groups", "worst", "predictions")}
    return {"kind": "e2e", "predicted": 0, "failed": {}, "warnings": {}, "metrics": {}, **lists}


def _predictions(imported: ImportedFile, converted: Converted, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        made[position] if position is not None else {"run_id": record.where, "reason": reason}
        for record, position, reason in zip(imported.records, converted.positions, converted.reasons, strict=True)
    ]
