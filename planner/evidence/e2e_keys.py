"""What makes two end-to-end runs alike: the keys by which they are held out together, and how far a run is from those
that the shipped coefficients were fitted on.

Classes, nearest first: ``seen_layout`` (same model, accelerator, engine, precision, mode and layout; other lengths or
concurrency), ``new_layout``, ``new_model``, ``new_gpu``, ``new_engine``. A run that is new in several ways takes the
farthest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.evidence.runs import LAYOUT, POOL, Runs

DISTANCES = ("seen_layout", "new_layout", "new_model", "new_gpu", "new_engine")
EVIDENCE_FILE = "intervals.yaml"


def layout_text(runs: Runs, row: int) -> str:
    """Layout of a run in one word: ``tp8.pp1.dp1.mtp1.ep8``, or both pools of a split deployment."""
    names = LAYOUT if runs.text["serving"][row] == "agg" else POOL
    return ".".join("-" if not runs[n][row] >= 1 else str(int(runs[n][row])) for n in names)


def group_keys(runs: Runs) -> list[str]:
    """Key of each run's whole group: model, accelerator, engine, precision, serving mode, layout."""
    text = runs.text
    names = ("model", "gpu", "engine", "linear_precision", "moe_precision", "serving")
    return [" ".join([*(text[n][i] or "-" for n in names), layout_text(runs, i)]) for i in range(len(runs))]


def distance_classes(runs: Runs, evidence: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """Class of each run by ``evidence`` (models, gpus, engines, groups), the shipped one by default."""
    known = {k: set(v) for k, v in (evidence or shipped_evidence()).items()}
    groups = group_keys(runs)
    return [
        distance(known, runs.text["model"][i], runs.text["gpu"][i], runs.text["engine"][i], groups[i])
        for i in range(len(runs))
    ]


def distance(known: Mapping[str, Iterable[str]], model: str, gpu: str, engine: str, group: str) -> str:
    """How far (model, gpu, engine, group) is from what is known."""
    if engine not in known["engines"]:
        return "new_engine"
    if gpu not in known["gpus"]:
        return "new_gpu"
    if model not in known["models"]:
        return "new_model"
    return "seen_layout" if group in known["groups"] else "new_layout"


def evidence_of(runs: Runs, rows: Iterable[int]) -> dict[str, list[str]]:
    """What ``rows`` of the runs have shown: models, accelerators, engines and groups, sorted."""
    chosen = list(rows)
    groups = group_keys(runs)
    text = runs.text
    return {
        "models": sorted({text["model"][i] for i in chosen}),
        "gpus": sorted({text["gpu"][i] for i in chosen}),
        "engines": sorted({text["engine"][i] for i in chosen}),
        "groups": sorted({groups[i] for i in chosen}),
    }


def shipped_evidence(directory: Path | None = None) -> Mapping[str, list[str]]:
    """Evidence of the shipped coefficients."""
    return interval_document(directory or data_root() / "hardware_db" / "efficiency")["evidence"]


@lru_cache(maxsize=8)
def interval_document(directory: Path) -> Mapping[str, Any]:
    """hardware_db/efficiency/intervals.yaml."""
    return read_yaml(directory / EVIDENCE_FILE)
