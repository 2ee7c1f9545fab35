"""Numbers, truth values and statistics as reports write them: null, '' and 'N/A' are missing, text may be a number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.evidence.importers.record import Latency
from planner.units import MICROSECOND, MILLISECOND

MISSING = frozenset({"", "n/a", "na", "none", "null", "nan", "-"})
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "s/token": 1.0, "ms": MILLISECOND, "ms/token": MILLISECOND}
SECONDS |= {"us": MICROSECOND, "µs": MICROSECOND, "ns": MICROSECOND * MILLISECOND}

_PERCENTILE = re.compile(r"^p(?:ercentile_?)?(\d+)(?:[p.](\d+))?$")
_THOUSANDTHS = {"p001": 0.1, "p01": 1.0, "p05": 5.0, "p999": 99.9}


def number(value: Any, field: str = "value") -> float | None:
    """A number, None where missing. Raises InputError for text that is none, and for truth values."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(field, value, "a number or nothing")
    try:
        found = float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        raise InputError(field, value, "a number or nothing") from None
    return None if math.isnan(found) else found


def finite(value: Any, field: str = "value") -> float | None:
    """A number as :func:`number` gives it; infinity counts as missing."""
    found = number(value, field)
    return None if found is None or math.isinf(found) else found


def count(value: Any, field: str = "value") -> int | None:
    """A whole number, None where missing. Raises InputError for a fraction."""
    found = finite(value, field)
    if found is not None and not found.is_integer():
        raise InputError(field, value, "a whole number or nothing")
    return None if found is None else int(found)


def truth(value: Any, field: str = "value") -> bool | None:
    """A truth value, also as text ('false', 'True', '0'); None where missing.

    Raises InputError for other text: 'false' as a plain string would otherwise count as true.
    """
    if isinstance(value, bool):
        return value
    if value is None:
        return None
    low = str(value).strip().lower()
    if low in MISSING:
        return None
    if low in ("true", "yes", "1", "on"):
        return True
    if low in ("false", "no", "0", "off"):
        return False
    raise InputError(field, value, "true or false")


def text(value: Any) -> str | None:
    """Text without spaces around it, None where missing or not text."""
    if not isinstance(value, str) or value.strip().lower() in MISSING:
        return None
    return value.strip()


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def unit_s(unit: Any, field: str) -> float:
    """Seconds in a unit of time. Raises InputError for units that are not known."""
    name = str(unit).strip().lower()
    if name not in SECONDS:
        raise InputError(field, unit, f"a unit of time: {', '.join(SECONDS)}")
    return SECONDS[name]


def percentile_of(key: str) -> float | None:
    """The percentile a key names: p50, p99.9, p99p9, p999, median; None for other keys."""
    low = key.lower()
    if low == "median":
        return 50.0
    if low in _THOUSANDTHS:
        return _THOUSANDTHS[low]
    match = _PERCENTILE.match(low)
    return float(f"{match[1]}.{match[2] or 0}") if match else None


def latency(stats: Any, unit: float, field: str) -> Latency | None:
    """Statistics from a mapping with mean or avg, std, and percentiles under any of their usual keys."""
    given = mapping(stats)
    percentiles: dict[float, float] = {}
    for key, value in {**given, **mapping(given.get("percentiles"))}.items():
        p = percentile_of(str(key))
        found = None if p is None else finite(value, f"{field}.{key}")
        if p is not None and found is not None:
            percentiles[p] = found * unit
    mean = _first(given, ("mean", "avg", "average"), field)
    std = _first(given, ("std", "std_dev", "stddev"), field)
    if mean is None and not percentiles:
        return None
    return Latency(
        None if mean is None else mean * unit,
        None if std is None else std * unit,
        dict(sorted(percentiles.items())),
    )


def flat_latency(row: Mapping[str, Any], metric: str, unit: float, suffix: str = "") -> Latency | None:
    """Statistics from a flat mapping: ``mean_ttft_ms``, ``median_ttft_ms``, ``p99_ttft_ms`` ..."""
    end = f"_{metric}{suffix}"
    return latency({k[: -len(end)]: v for k, v in row.items() if k.endswith(end)}, unit, metric)


def present(**found: Latency | None) -> dict[str, Latency]:
    """The latencies that are there."""
    return {name: value for name, value in found.items() if value is not None}


def _first(given: Mapping[str, Any], keys: tuple[str, ...], field: str) -> float | None:
    return next((finite(given[k], f"{field}.{k}") for k in keys if given.get(k) is not None), None)
