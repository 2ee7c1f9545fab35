"""Traces that are made rather than measured: the three fixed profiles, and samples of a scenario's own workload."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import UnknownNameError
from planner.replay.trace import MOONCAKE_BLOCK_TOKENS, Trace, ragged
from planner.scenario.schema import PrefixReuse, Workload

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

QUESTION_SHARE = 0.04
"""Part of a prompt about a known document that is new: the question after it."""
OPEN_DOCUMENTS = 64
"""A repeated question goes to one of the last so many documents."""


class Profile(Strict):
    """One fixed trace: published quantiles of lengths, arrivals, reuse of documents."""

    id: str
    title: str
    input_quantiles_tokens: tuple[tuple[float, float], ...] = Field(min_length=2)
    output_quantiles_tokens: tuple[tuple[float, float], ...] = Field(min_length=2)
    input_mean_tokens: float
    "Published mean, beside the quantiles; generated traces are checked against it."
    output_mean_tokens: float
    length_correlation: float = Field(ge=-1.0, le=1.0)
    "Correlation between prompt and output length; imposed on their normal scores."
    rate_rps: float = Field(gt=0)
    interarrival_cv: float = Field(gt=0)
    document_reuse_probability: float = Field(ge=0.0, lt=1.0)
    source: str


@lru_cache(maxsize=1)
def profiles() -> dict[str, Profile]:
    """The fixed traces by id, from ``hardware_db/replay/profiles.yaml``."""
    rows = read_yaml(data_root() / "hardware_db" / "replay" / "profiles.yaml")["profiles"]
    found = [validate(Profile, row, f"replay/profiles.yaml {i}") for i, row in enumerate(rows)]
    return {p.id: p for p in found}


def fixed_trace(name: str, n: int, seed: int, rate_rps: float | None = None, cv: float | None = None) -> Trace:
    """``n`` requests of a profile; the same numbers for the same seed. Rate and gap cv replace the profile's own.

    Raises UnknownNameError for a name that is no profile.
    """
    known = profiles()
    if name not in known:
        raise UnknownNameError("--profile", name, known)
    p = known[name]
    rng = np.random.default_rng(seed)
    u, v = _correlated_uniforms(rng, n, p.length_correlation)
    inputs, outputs = (_tokens(q, x) for q, x in ((p.input_quantiles_tokens, u), (p.output_quantiles_tokens, v)))
    at = arrival_times(rng, n, rate_rps or p.rate_rps, cv if cv is not None else p.interarrival_cv)
    if not p.document_reuse_probability:
        return Trace.of(p.id, at, inputs, outputs)
    inputs, blocks = _documents(rng, inputs, p.document_reuse_probability)
    return Trace.of(p.id, at, inputs, outputs, blocks=blocks, block_tokens=MOONCAKE_BLOCK_TOKENS)


def workload_trace(workload: Workload, n: int, seed: int) -> Trace:
    """``n`` requests drawn from a scenario's length distributions, arrival process and priority classes.

    A closed loop has no arrival times of its own (all 0): the replay lets the next request in as one leaves.
    """
    rng = np.random.default_rng(seed)
    inputs = workload.input_tokens.sample(rng, n)
    outputs = workload.output_tokens.sample(rng, n)
    if workload.max_new_tokens is not None:
        outputs = np.minimum(outputs, workload.max_new_tokens)
    rate, cv = workload.arrival.rate(), workload.arrival.gap_cv()
    at = np.zeros(n) if rate is None or cv is None else arrival_times(rng, n, rate, cv)
    classes = workload.priority_classes
    priority = None
    if classes:
        ranks, shares = np.array([c.priority for c in classes]), np.array([c.share for c in classes])
        priority = rng.choice(ranks, size=n, p=shares / shares.sum())
    reuse = workload.prefix_reuse
    if reuse is None:
        return Trace.of("workload", at, inputs, outputs, priority=priority)
    which = rng.choice(reuse.prefixes, size=n, p=_popularity(reuse))
    return Trace.of(
        "workload",
        at,
        np.maximum(inputs, reuse.tokens + 1),
        outputs,
        priority=priority,
        blocks=_prefixes(which, max(reuse.tokens // PREFIX_BLOCK_TOKENS, 1)),
        block_tokens=min(PREFIX_BLOCK_TOKENS, reuse.tokens),
    )


PREFIX_BLOCK_TOKENS = 64
"""Blocks in which generated prompts share their prefixes."""


def _popularity(reuse: PrefixReuse) -> FloatArray:
    weights = np.arange(1, reuse.prefixes + 1, dtype=float) ** -reuse.zipf
    return np.asarray(weights / weights.sum())


def _prefixes(which: IntArray, blocks: int) -> tuple[IntArray, IntArray]:
    """Block ids of requests that begin with prefix ``which``, ``blocks`` each."""
    ids = which[:, None] * blocks + np.arange(blocks)
    return ids.ravel().astype(np.int64), np.arange(which.size + 1, dtype=np.int64) * blocks


def arrival_times(rng: np.random.Generator, n: int, rate_rps: float, cv: float) -> FloatArray:
    """``n`` arrival times in seconds with gamma gaps of mean 1/rate and coefficient of variation ``cv`` (0: even)."""
    if cv <= 0:
        return np.arange(n) / rate_rps
    shape = 1.0 / cv**2
    return np.asarray(np.cumsum(rng.gamma(shape, 1.0 / (rate_rps * shape), size=n)))


def _correlated_uniforms(rng: np.random.Generator, n: int, rho: float) -> tuple[FloatArray, FloatArray]:
    """Two uniform samples whose normal scores have correlation ``rho`` (a Gaussian copula)."""
    from scipy.special import ndtr

    x, y = rng.standard_normal(n), rng.standard_normal(n)
    return ndtr(x), ndtr(rho * x + np.sqrt(1.0 - rho * rho) * y)


def _tokens(quantiles: tuple[tuple[float, float], ...], u: FloatArray) -> IntArray:
    p, tokens = np.array(quantiles).T
    return np.maximum(np.rint(np.exp(np.interp(u, p, np.log(tokens)))), 1).astype(np.int64)


def _documents(rng: np.random.Generator, inputs: IntArray, reuse: float) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """Prompts that are a document and a question: lengths, and block ids (document blocks shared, the rest new)."""
    lengths = inputs.copy()
    again = rng.random(inputs.size) < reuse
    which = rng.integers(0, OPEN_DOCUMENTS, size=inputs.size)
    documents: list[tuple[int, list[int]]] = []
    rows: list[list[int]] = []
    fresh = 0
    for i in range(inputs.size):
        known = documents[-OPEN_DOCUMENTS:]
        if again[i] and known:
            lengths[i], shared = known[which[i] % len(known)]
        else:
            shared = []
        total = -(-int(lengths[i]) // MOONCAKE_BLOCK_TOKENS)
        rows.append(shared + list(range(fresh, fresh + total - len(shared))))
        fresh += total - len(shared)
        if not shared:
            held = int(lengths[i] * (1.0 - QUESTION_SHARE)) // MOONCAKE_BLOCK_TOKENS
            documents.append((int(lengths[i]), rows[-1][:held]))
    return lengths, ragged(rows)
