"""The base of every schema a person writes or reads: strict, frozen, keys as in the YAML."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Schema(BaseModel):
    """Unknown keys, silent conversions ("8" for 8, true for 1) and non-finite numbers are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        serialize_by_alias=True,
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and strings, as the YAML holds them; absent options are left
        out.
        """
        return self.model_dump(mode="json", exclude_none=True)


Tokens = Annotated[int, Field(ge=1, le=100_000_000)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0, le=1e12)]
NotNegative = Annotated[float, Field(ge=0.0, le=1e12)]
MIN_RATE_RPS, MAX_RATE_RPS = 1e-6, 1e6
"""Requests per second: from one in eleven days to more than any service has; beyond, a unit was mixed up."""
Rate = Annotated[float, Field(ge=MIN_RATE_RPS, le=MAX_RATE_RPS)]
Milliseconds = Annotated[float, Field(ge=1e-3, le=1e9)]
UsdPerHour = Annotated[float, Field(ge=0.0, le=1e6)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
