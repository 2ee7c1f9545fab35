"""Distributions of request lengths in tokens: fixed, uniform, lognormal, empirical.

Every kind answers the same four questions: ``mean()`` [tokens], ``second_moment()`` [tokens^2],
``quantile(p)`` [tokens] and ``sample(rng, n)`` (int64 tokens, at least 1). Formulas that need a whole
distribution (queueing, KV occupancy) use only these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from planner.errors import InputError
from planner.scenario.base import Name, NotNegative, Schema, Tokens

if TYPE_CHECKING:
    from typing import Self

FloatArray = NDArray[np.float64]

_Z95 = 1.6448536269514722
"""Standard normal quantile at 0.95: what turns a p95 into a lognormal's sigma."""
MAX_P95_OVER_MEAN = math.exp(_Z95**2 / 2)
"""A lognormal's p95 is at most exp(z^2 / 2) = 3.87 times its mean (reached at sigma = z)."""


def _probabilities(p: ArrayLike) -> FloatArray:
    a = np.asarray(p, dtype=float)
    if a.size and not (np.all(a >= 0.0) and np.all(a <= 1.0)):
        raise InputError("p", p, "a probability between 0 and 1")
    return a


class FixedLength(Schema):
    """Every request has the same length."""

    kind: Literal["fixed"] = Field(description="Every request has the same length.")
    tokens: Tokens = Field(description="Length in tokens.")

    def mean(self) -> float:
        return float(self.tokens)

    def second_moment(self) -> float:
        return float(self.tokens) ** 2

    def maximum(self) -> float:
        return float(self.tokens)

    def quantile(self, p: ArrayLike) -> FloatArray:
        return np.full_like(_probabilities(p), float(self.tokens))

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        return np.full(n, self.tokens, dtype=np.int64)


class UniformLength(Schema):
    """Whole numbers from ``min_tokens`` to ``max_tokens``, both included, equally likely."""

    kind: Literal["uniform"] = Field(description="Whole numbers between two bounds, equally likely.")
    min_tokens: Tokens = Field(description="Smallest length in tokens.")
    max_tokens: Tokens = Field(description="Largest length in tokens.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_tokens < self.min_tokens:
            raise ValueError(f"max_tokens must be at least min_tokens = {self.min_tokens}")
        return self

    def mean(self) -> float:
        return 0.5 * (self.min_tokens + self.max_tokens)

    def second_moment(self) -> float:
        """Mean squared plus the discrete uniform's variance (n^2 - 1) / 12 for n values."""
        n = self.max_tokens - self.min_tokens + 1
        return self.mean() ** 2 + (n * n - 1) / 12.0

    def maximum(self) -> float:
        return float(self.max_tokens)

    def quantile(self, p: ArrayLike) -> FloatArray:
        """Smallest length whose cumulative probability reaches ``p``."""
        n = self.max_tokens - self.min_tokens + 1
        steps = np.ceil(_probabilities(p) * n - 1e-9) - 1
        return self.min_tokens + np.clip(steps, 0, n - 1)

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        return rng.integers(self.min_tokens, self.max_tokens, size=n, endpoint=True, dtype=np.int64)


class LognormalLength(Schema):
    """Lognormal with the given mean and 95th percentile.

    With m the mean and q the p95: sigma = z - sqrt(z^2 - 2 ln(q / m)), mu = ln m - sigma^2 / 2, z = 1.645. Of
    the two roots the one with the lighter tail is meant. Moments are those of the continuous law; samples are
    rounded to whole tokens.
    """

    kind: Literal["lognormal"] = Field(description="Lognormal, given by its mean and 95th percentile.")
    mean_tokens: Annotated[float, Field(ge=1.0, le=1e8)] = Field(description="Mean length in tokens.")
    p95_tokens: Annotated[float, Field(ge=1.0, le=1e9)] = Field(
        description="95th percentile in tokens; above the mean and at most 3.868 times the mean."
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        low, high = self.mean_tokens, self.mean_tokens * MAX_P95_OVER_MEAN
        if not low < self.p95_tokens <= high:
            raise ValueError(
                f"p95_tokens of a lognormal must be above its mean {low:g} and at most {high:.6g}"
                f" ({MAX_P95_OVER_MEAN:.3f} times the mean)"
            )
        return self

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm (dimensionless)."""
        return _Z95 - math.sqrt(max(_Z95**2 - 2.0 * math.log(self.p95_tokens / self.mean_tokens), 0.0))

    @property
    def mu(self) -> float:
        """Mean of the logarithm of the length in tokens."""
        return math.log(self.mean_tokens) - 0.5 * self.sigma**2

    def mean(self) -> float:
        return float(self.mean_tokens)

    def second_moment(self) -> float:
        """m^2 exp(sigma^2)."""
        return float(self.mean_tokens) ** 2 * math.exp(self.sigma**2)

    def maximum(self) -> float:
        """Infinite: the law has no largest length."""
        return math.inf

    def quantile(self, p: ArrayLike) -> FloatArray:
        from scipy.special import ndtri

        return np.asarray(np.exp(self.mu + self.sigma * ndtri(_probabilities(p))), dtype=float)

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        drawn = np.rint(rng.lognormal(self.mu, self.sigma, size=n))
        return np.maximum(drawn, 1.0).astype(np.int64)


class EmpiricalLength(Schema):
    """Measured lengths: a histogram written out, or a column of a CSV or JSONL file next to the scenario.

    :func:`planner.scenario.load.load_scenario` reads the file once and fills the histogram, so that a plan
    carries its own traffic.
    """

    kind: Literal["empirical"] = Field(description="Measured lengths, from a histogram or a file.")
    file: Name | None = Field(None, description="CSV or JSONL file of lengths, relative to the scenario's folder.")
    column: Name | None = Field(None, description="Column (CSV) or key (JSONL) that holds the length in tokens.")
    values_tokens: tuple[Tokens, ...] | None = Field(
        None, strict=False, max_length=1_000_000, description="Lengths in tokens, ascending and distinct."
    )
    weights: tuple[NotNegative, ...] | None = Field(
        None,
        strict=False,
        max_length=1_000_000,
        description="Relative frequency of each value; equal if absent.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.values_tokens is None:
            if self.file is None:
                raise ValueError("needs values_tokens, or file and column")
            if self.column is None:
                raise ValueError("file needs column, the name of the column that holds the lengths")
            if self.weights is not None:
                raise ValueError("weights belong to values_tokens; a file gives its own frequencies")
            return self
        if not self.values_tokens:
            raise ValueError("values_tokens needs at least one length")
        if any(b <= a for a, b in zip(self.values_tokens, self.values_tokens[1:], strict=False)):
            raise ValueError("values_tokens must be ascending without repeats")
        if self.weights is not None:
            if len(self.weights) != len(self.values_tokens):
                raise ValueError(f"weights needs one number per value, {len(self.values_tokens)} in all")
            if not sum(self.weights) > 0:
                raise ValueError("weights must not all be 0")
        return self

    def _histogram(self) -> tuple[FloatArray, FloatArray]:
        if self.values_tokens is None:
            raise InputError("file", self.file, "not read yet; load the scenario with load_scenario")
        values = np.asarray(self.values_tokens, dtype=float)
        w = np.ones_like(values) if self.weights is None else np.asarray(self.weights, dtype=float)
        return values, w / w.sum()

    def mean(self) -> float:
        values, w = self._histogram()
        return float(values @ w)

    def second_moment(self) -> float:
        values, w = self._histogram()
        return float((values * values) @ w)

    def maximum(self) -> float:
        values, w = self._histogram()
        return float(values[w > 0].max())

    def quantile(self, p: ArrayLike) -> FloatArray:
        """Smallest value whose cumulative frequency reaches ``p``."""
        values, w = self._histogram()
        values, w = values[w > 0], w[w > 0]
        at = np.searchsorted(np.cumsum(w), _probabilities(p) - 1e-12, side="left")
        return np.asarray(values[np.minimum(at, values.size - 1)], dtype=float)

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        values, w = self._histogram()
        return rng.choice(values.astype(np.int64), size=n, p=w)


Length = Annotated[FixedLength | UniformLength | LognormalLength | EmpiricalLength, Field(discriminator="kind")]


def histogram(lengths: ArrayLike) -> dict[str, Any]:
    """``values_tokens`` and ``weights`` (counts) of raw lengths in tokens, distinct and ascending."""
    values, counts = np.unique(np.asarray(lengths, dtype=np.int64), return_counts=True)
    return {"values_tokens": tuple(values.tolist()), "weights": tuple(float(c) for c in counts)}
