"""Two plans side by side: what they are results of, before their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.scenario.differences import differences, flat
from planner.scenario.identity import identity_difference
from planner.search.plan_schema import Candidate, Plan
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count, dollars, duration, gib, sig
from planner.ui.phrases import translated
from planner.ui.words import precision_classes


@dataclass(frozen=True)
class Row:
    """A line of the table of numbers; ``ratio`` is right over left."""

    name: str
    left: str
    right: str
    ratio: float | None


Difference = tuple[str, str, str]
"""Field in words, left, right."""


def identities(a: Plan, b: Plan) -> list[Difference]:
    """Where the identity tuples differ; empty means that the results compare directly."""
    names = identity_names()
    return [(names.get(k, k), _text(x), _text(y)) for k, (x, y) in identity_difference(a.identity, b.identity).items()]


def identity_names() -> dict[str, str]:
    """Field of the identity tuple, in words."""
    named = {
        "checkpoint": _("Checkpoint"),
        "tokenizer": _("Tokenizer"),
        "max_context": _("Longest context"),
        "max_new_tokens": _("Output cut-off"),
        "sampling": _("Sampling"),
        "engine": _("Engine"),
        "engine_version": _("Engine version"),
        "gpu": _("GPU"),
        "topology": _("Topology"),
    }
    return named | {f"precision.{k}": _("Precision: {part}").format(part=v) for k, v in precision_classes().items()}


def versions(a: Plan, b: Plan) -> list[Difference]:
    """Where the two were made with different programs, catalogues or coefficients."""
    names = {"planner": _("Planner"), "catalogue": _("Catalogue"), "coefficients": _("Coefficients")}
    found = differences(a.versions.model_dump(), b.versions.model_dump())
    return [(names.get(k, k), left, right) for k, (left, right) in found.items()]


def scenarios(a: Plan, b: Plan) -> list[Difference]:
    """Where the questions differ, by the dotted keys of their YAML."""
    found = differences(flat(a.scenario.to_dict()), flat(b.scenario.to_dict()))
    return [(k, _text(x), _text(y)) for k, (x, y) in found.items() if k not in ("name", "description")]


def numbers(a: Candidate, b: Candidate) -> list[Row]:
    """The figures of two deployments."""
    columns: list[tuple[str, Callable[[Candidate], float | None], Callable[[float | None], str]]] = [
        (_("GPUs"), lambda c: float(c.gpus), count),
        (_("Replicas"), lambda c: float(c.replicas), count),
        (_("$ per million output tokens"), lambda c: c.usd_per_mtok.output, dollars),
        (_("$ per hour"), lambda c: c.usd_per_hour, dollars),
        (_("Output tokens/s per GPU"), lambda c: c.output_tokens_per_s_per_gpu, sig),
        (_("Goodput, requests/s"), lambda c: c.goodput_rps, sig),
        (_("Time to first token, mean"), lambda c: c.ttft_ms.mean, duration),
        (_("Time per output token, mean"), lambda c: c.tpot_ms.mean, duration),
        (_("Requests in flight"), lambda c: c.concurrency, sig),
        (_("KV cache of the fullest GPU"), lambda c: c.memory_gib.kv, gib),
        (_("Joules per output token"), lambda c: c.joules_per_token, sig),
    ]
    out = []
    for name, of, show in columns:
        x, y = of(a), of(b)
        out.append(Row(name, show(x), show(y), y / x if x and y is not None else None))
    return out


def _text(value: Any) -> str:
    return NONE if value is None else translated(str(value))
