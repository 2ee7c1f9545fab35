"""How requests arrive: a closed loop, or an open stream by rate and variability.

Every open kind has ``rate_rps`` (requests per second) and ``cv`` (coefficient of variation of the gaps
between arrivals); a closed loop has ``concurrency`` and neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from planner.scenario.base import Count, Name, NotNegative, Rate, Schema

if TYPE_CHECKING:
    from typing import Self


class ClosedLoop(Schema):
    """A fixed number of requests is kept in flight; the rate follows from the answer times."""

    kind: Literal["closed_loop"] = Field(description="A fixed number of requests is kept in flight.")
    concurrency: Count = Field(description="Requests in flight over the whole deployment.")

    def rate(self) -> float | None:
        return None

    def gap_cv(self) -> float | None:
        return None


class Poisson(Schema):
    """Independent users: exponential gaps (cv = 1)."""

    kind: Literal["poisson"] = Field(description="Independent arrivals at a mean rate.")
    rate_rps: Rate = Field(description="Mean arrival rate in requests per second.")

    def rate(self) -> float | None:
        return self.rate_rps

    def gap_cv(self) -> float | None:
        return 1.0


class Gamma(Schema):
    """Gamma-distributed gaps: burstier than Poisson above cv 1, smoother below."""

    kind: Literal["gamma"] = Field(description="Arrivals at a mean rate with gamma-distributed gaps.")
    rate_rps: Rate = Field(description="Mean arrival rate in requests per second.")
    cv: Annotated[float, Field(gt=0.0, le=100.0)] = Field(
        description="Coefficient of variation of the gaps between arrivals; 1 is Poisson."
    )

    def rate(self) -> float | None:
        return self.rate_rps

    def gap_cv(self) -> float | None:
        return self.cv


class Trace(Schema):
    """Arrival times from a file next to the scenario; its mean rate and gap cv are filled in when it is
    loaded.
    """

    kind: Literal["trace"] = Field(description="Arrival times from a file.")
    file: Name = Field(description="CSV or JSONL file of requests, relative to the scenario's folder.")
    column: Name = Field(description="Column (CSV) or key (JSONL) that holds the arrival time.")
    unit: Literal["s", "ms", "us", "ns", "iso8601"] = Field(
        description="Unit of the arrival time: a number of s, ms, us or ns, or an ISO 8601 date-time."
    )
    rate_rps: Rate | None = Field(
        None, description="Mean arrival rate in requests per second; filled in from the file."
    )
    cv: NotNegative | None = Field(None, description="Coefficient of variation of the gaps; filled in from the file.")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.rate_rps is None) != (self.cv is None):
            raise ValueError("rate_rps and cv are filled in together from the file; give neither")
        return self

    def rate(self) -> float | None:
        return self.rate_rps

    def gap_cv(self) -> float | None:
        return self.cv


class DailyProfile(Schema):
    """How the load moves over a day; the arrival's rate is that of the busiest hour, which the plan is made for."""

    hourly: tuple[NotNegative, ...] | None = Field(
        None,
        strict=False,
        min_length=24,
        max_length=24,
        description="Load of each hour from midnight in any unit; only the proportions count.",
    )
    peak_to_mean: Annotated[float, Field(ge=1.0, le=24.0)] | None = Field(
        None, description="Busiest hour over the mean of the day, where the hours are not known."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.hourly is None) == (self.peak_to_mean is None):
            raise ValueError("needs either hourly (24 values) or peak_to_mean")
        if self.hourly is not None and not max(self.hourly) > 0:
            raise ValueError("hourly needs a value above 0")
        return self

    @property
    def mean_over_peak(self) -> float:
        """Mean load of the day over that of its busiest hour, above 0 and at most 1."""
        if self.hourly is not None:
            return sum(self.hourly) / len(self.hourly) / max(self.hourly)
        assert self.peak_to_mean is not None
        return 1.0 / self.peak_to_mean


Arrival = Annotated[ClosedLoop | Poisson | Gamma | Trace, Field(discriminator="kind")]


class PriorityClass(Schema):
    """A part of the traffic that the scheduler serves before or after others."""

    name: Name = Field(description="Name of the class.")
    share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        description="Part of all requests that belong to the class; the shares of all classes add up to 1."
    )
    priority: Annotated[int, Field(ge=0, le=1000)] = Field(
        description="Rank of the class: a lower number is served first."
    )
