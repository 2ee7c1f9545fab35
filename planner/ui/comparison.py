"""Two plans side by side: what they are results of, before their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.export.answers import identity_of
from planner.scenario.differences import differences, flat
from planner.scenario.identity import Identity, identity_difference
from planner.search.plan_schema import Candidate, Plan
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count, dollars, duration, durations, exact, gib, sig, span
from planner.ui.phrases import translated
from planner.ui.text import listed
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


def identities(a: Identity, b: Identity) -> list[Difference]:
    """Where the identity tuples differ; empty means that the results compare directly."""
    names = identity_names()
    return [(names.get(k, k), _text(x), _text(y)) for k, (x, y) in identity_difference(a, b).items()]


def identity(plan: Plan, candidate: Candidate | None) -> Identity:
    """What the numbers of ``candidate`` are results of: a plan's own tuple is that of its best."""
    return plan.identity if candidate is None else identity_of(plan, candidate)


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


@dataclass(frozen=True)
class Figure:
    """A figure of a deployment: its name, its value (None: it has none), how it is written, its interval's key."""

    name: str
    of: Callable[[Candidate], float | None]
    show: Callable[[float | None], str]
    key: str | None = None

    def text(self, candidate: Candidate) -> str:
        """The value, with its 80 % interval where it has one."""
        value = self.show(self.of(candidate))
        inside = None if self.key is None else candidate.interval.get(self.key)
        if inside is None:
            return value
        ends = durations(inside.low80, inside.high80) if self.show is duration else span(inside)
        return f"{value} ({ends})"


def numbers(a: Candidate, b: Candidate) -> list[Row]:
    """The figures of two deployments."""
    figures = [
        Figure(_("GPUs"), lambda c: float(c.gpus), count),
        *_workers(a, b),
        Figure(_("$ per million output tokens"), lambda c: c.usd_per_mtok.output, dollars, "usd_per_mtok"),
        Figure(_("$ per hour"), lambda c: c.usd_per_hour, dollars),
        Figure(
            _("Output tokens/s per GPU"),
            lambda c: c.output_tokens_per_s_per_gpu,
            sig,
            "output_tokens_per_s_per_gpu",
        ),
        Figure(_("Goodput, requests/s"), lambda c: c.goodput_rps, sig),
        Figure(_("Time to first token, mean"), lambda c: c.ttft_ms.mean, duration, "ttft_ms"),
        Figure(_("Time per output token, mean"), lambda c: c.tpot_ms.mean, duration, "tpot_ms"),
        Figure(_("Requests in the workers, or in decode workers"), lambda c: c.concurrency, sig),
        Figure(_("KV cache of the fullest GPU"), lambda c: c.memory_gib.kv, gib),
        Figure(_("Joules per output token"), lambda c: c.joules_per_token, sig, "joules_per_token"),
    ]
    out = []
    for figure in figures:
        x, y = figure.of(a), figure.of(b)
        out.append(Row(figure.name, figure.text(a), figure.text(b), y / x if x and y is not None else None))
    return out


def _workers(a: Candidate, b: Candidate) -> list[Figure]:
    """Workers by what they do: those of an aggregated deployment read and write, a disaggregated one has two pools.
    Workers of different work are not put in one row.
    """
    figures = [
        Figure(_("Replicas"), lambda c: None if c.prefill_pool else float(c.replicas), count),
        Figure(_("Prefill workers"), lambda c: float(c.prefill_pool.workers) if c.prefill_pool else None, count),
        Figure(_("Decode workers"), lambda c: float(c.decode_pool.workers) if c.decode_pool else None, count),
    ]
    return [f for f in figures if f.of(a) is not None or f.of(b) is not None]


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list | tuple):
        return listed(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return exact(value) if type(value) in (int, float) else translated(str(value))
