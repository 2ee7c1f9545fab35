"""Which measured runs are nearest to a deployment, and in what they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.catalog.loader import Catalog
from planner.catalog.model_spec import MlaAttention, ModelSpec
from planner.errors import PlannerError
from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.run_reading import architecture_name, known_spec, models_by_name
from planner.model.parameters import count

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

WEIGHTS = {"model": 3.0, "gpu": 3.0, "engine": 3.0, "serving": 1.0, "layout": 1.5}
"""What a difference counts at the most. Residuals of runs held out by model, by accelerator and by engine are about as
wide (hardware_db/efficiency/intervals.yaml), those of runs held out by layout much narrower."""
SAME_SHAPE, SAME_KIND = 0.05, 0.4
"""Part of a model's weight that counts where layers and attention are the same under another name, and where only the
kind is (experts or none, latent attention or not)."""
SAME_GENERATION = 0.5
"""Part of a GPU's weight that counts within a generation."""
PER_DOUBLING = {"size": 0.2, "layout": 0.15, "load": 0.15}
"""What a factor of two counts: in active parameters, in one degree of a layout (up to its weight), and in prompt
length, output length or requests in flight."""
LOAD = ("input_tokens", "output_tokens", "concurrency")
UNKNOWN_DOUBLINGS = 10.0


@dataclass(frozen=True)
class Place:
    """A deployment in the terms of a run; ``model`` as runs name it, ``layout`` as e2e_keys.layout_text."""

    model: str
    gpu: str
    engine: str
    serving: str
    layout: str
    input_tokens: float
    output_tokens: float
    concurrency: float
    """Requests in flight in one worker (in a split deployment: in all of it)."""


@dataclass(frozen=True)
class Nearness:
    """How far each run is from a place, arrays (n,)."""

    score: Array
    """0 is the same deployment."""
    parts: Mapping[str, Array]
    """By key of WEIGHTS, the part of its weight that the difference counts: 0 where a run agrees."""

    @cached_property
    def same(self) -> Mapping[str, BoolArray]:
        """By key of WEIGHTS, whether a run agrees; a model agrees by its architecture, whatever its tuning."""
        return {key: values == 0.0 for key, values in self.parts.items()}

    def order(self) -> NDArray[np.int64]:
        """Positions of the runs, nearest first."""
        return np.argsort(self.score, kind="stable")

    def agreeing(self, *keys: str) -> int:
        """Runs that agree in all of ``keys``."""
        return int(self.agree(*keys).sum())

    def agree(self, *keys: str) -> BoolArray:
        """Whether each run agrees in all of ``keys``."""
        return np.asarray(np.logical_and.reduce([self.same[k] for k in keys]))

    def differs(self, row: int) -> list[str]:
        """Keys of WEIGHTS in which a run differs from the place."""
        return [key for key, agrees in self.same.items() if not agrees[row]]


def nearness(table: EvidenceTable, place: Place, catalog: Catalog, spec: ModelSpec | None = None) -> Nearness:
    """Distance of every run of ``table`` from ``place``: differences in kind, in part where the two are related, and
    doublings in size, lengths and load. ``spec`` is the place's model where the catalogue does not have it.
    """
    text = table.runs.text
    known = models_by_name(catalog)
    own = spec or known_spec(known, place.model)
    part = {
        "model": _by_value(text["model"], lambda m: _model_part(known_spec(known, m), m, own, place.model)),
        "gpu": _by_value(text["gpu"], lambda g: _gpu_part(catalog, g, place.gpu)),
        "engine": _by_value(text["engine"], lambda e: float(e != place.engine)),
        "serving": _by_value(text["serving"], lambda s: float(s != place.serving)),
        "layout": _by_value(table.layouts, lambda word: _layout_part(word, place.layout)),
    }
    score = np.sum([WEIGHTS[key] * values for key, values in part.items()], axis=0)
    for name in LOAD:
        ratio = table.runs[name] / max(float(getattr(place, name)), 1.0)
        doublings = np.abs(np.log2(np.where(ratio > 0, ratio, 1.0)))
        score = score + PER_DOUBLING["load"] * np.nan_to_num(doublings, nan=UNKNOWN_DOUBLINGS)
    return Nearness(np.asarray(score), part)


def _by_value(values: Sequence[str], part: Callable[[str], float]) -> Array:
    found = {value: part(value) for value in set(values)}
    return np.array([found[value] for value in values])


def _model_part(run: ModelSpec | None, name: str, own: ModelSpec | None, own_name: str) -> float:
    """0 the same architecture, 1 nothing in common."""
    if architecture_name(name) == architecture_name(own_name):
        return 0.0
    if run is None or own is None:
        return 1.0
    if _shape(run) == _shape(own):
        return SAME_SHAPE
    if _kind(run) != _kind(own):
        return 1.0
    doublings = abs(float(np.log2(count(run).active / count(own).active)))
    return min(SAME_KIND + PER_DOUBLING["size"] * doublings / WEIGHTS["model"], 1.0)


def _shape(spec: ModelSpec) -> object:
    return spec.num_layers, spec.hidden_size, spec.attentions, spec.feed_forwards


def _kind(spec: ModelSpec) -> tuple[bool, bool]:
    experts = any(f.kind == "moe" for f in spec.feed_forwards.values())
    return experts, any(isinstance(a, MlaAttention) for a in spec.attentions.values())


def _gpu_part(catalog: Catalog, gpu: str, own: str) -> float:
    if gpu == own:
        return 0.0
    try:
        related = catalog.accelerator(gpu).arch == catalog.accelerator(own).arch
    except PlannerError:
        return 1.0
    return SAME_GENERATION if related else 1.0


def _layout_part(word: str, own: str) -> float:
    """0 the same, growing with every degree that is another, 1 at the most and for other serving modes."""
    if word == own:
        return 0.0
    numbers, mine = ([int(n) if n.isdigit() else 0 for n in w.split(".")] for w in (word, own))
    if len(numbers) != len(mine) or 0 in numbers or 0 in mine:
        return 1.0
    doublings = float(np.abs(np.log2(np.array(numbers) / np.array(mine))).sum())
    return min(PER_DOUBLING["layout"] * doublings / WEIGHTS["layout"], 1.0)
