"""What makes two end-to-end runs alike: the keys by which they are held out together, and how far a run is from those
that the shipped coefficients were fitted on.

Classes, nearest first, each as true as it reads: ``seen_layout`` (runs of this model on this accelerator and engine in
this layout), ``new_layout`` (in other layouts only), ``new_model`` (runs on this accelerator and engine, none of this
model), ``new_gpu`` (runs of this engine, none on this accelerator), ``new_engine``. What was measured in parts but
never together is as far as what is missing: runs left out by (model, accelerator, engine) leave the 80 % interval of
``new_layout`` in twice as many cases as it promises, and that of ``new_model`` in as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.evidence.run_reading import architecture_name
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


@dataclass(frozen=True)
class Known:
    """What has been measured together, models by architecture (planner.evidence.run_reading.architecture_name)."""

    engines: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    """(accelerator, engine)."""
    triples: frozenset[tuple[str, str, str]]
    """(model, accelerator, engine)."""
    groups: frozenset[str]
    """As :func:`group_keys`, each also without its precision (:func:`place_key`)."""

    @classmethod
    def of(cls, evidence: Mapping[str, Iterable[str]]) -> Known:
        """From the groups of an evidence mapping."""
        triples: set[tuple[str, str, str]] = set()
        groups: set[str] = set()
        for text in evidence["groups"]:
            model, gpu, engine, linear, moe, serving, layout = text.split(" ")
            name = architecture_name(model)
            triples.add((name, gpu, engine))
            groups |= {
                " ".join((name, gpu, engine, linear, moe, serving, layout)),
                place_key(name, gpu, engine, serving, layout),
            }
        return cls(
            frozenset(engine for _, _, engine in triples),
            frozenset((gpu, engine) for _, gpu, engine in triples),
            frozenset(triples),
            frozenset(groups),
        )

    def distance(self, model: str, gpu: str, engine: str, group: str) -> str:
        """Class of a deployment; ``model`` is an architecture name, ``group`` one of :attr:`groups` where seen."""
        if engine not in self.engines:
            return "new_engine"
        if (gpu, engine) not in self.pairs:
            return "new_gpu"
        if (model, gpu, engine) not in self.triples:
            return "new_model"
        return "seen_layout" if group in self.groups else "new_layout"


def place_key(model: str, gpu: str, engine: str, serving: str, layout: str) -> str:
    """A group of :class:`Known` whatever its precision; ``layout`` as :func:`layout_text`."""
    return " ".join((model, gpu, engine, serving, layout))


def distance_classes(runs: Runs, evidence: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """Class of each run by ``evidence`` (its groups), the shipped one by default."""
    known = shipped_known() if evidence is None else Known.of(evidence)
    found: list[str] = []
    for i, key in enumerate(group_keys(runs)):
        model, rest = architecture_name(runs.text["model"][i]), key.split(" ", 1)[1]
        found.append(known.distance(model, runs.text["gpu"][i], runs.text["engine"][i], f"{model} {rest}"))
    return found


@lru_cache(maxsize=1)
def shipped_known() -> Known:
    """What the shipped coefficients were fitted on."""
    return Known.of(shipped_evidence())


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
