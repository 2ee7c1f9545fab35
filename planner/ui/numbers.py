"""Numbers as people read them: three significant digits (four digits stay whole), a unit, thousands set apart."""

from __future__ import annotations

import math

from planner.search.plan_schema import Interval
from planner.ui.i18n import _
from planner.units import half_up, stays_whole

NONE = "–"


def sig(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, more where it stays whole; a dash for None. Whole digits are never
    dropped into e-notation below a trillion.
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    if stays_whole(value):
        digits = max(digits, len(str(int(abs(value)))))
    rounded = half_up(value, digits)
    magnitude = rounded.adjusted()
    if magnitude < -4 or magnitude >= 12:
        return f"{rounded:.{digits - 1}e}"
    places = max(digits - 1 - magnitude, 0)
    return f"{rounded:,.{places}f}"


def shown(value: float) -> float:
    """``value`` rounded as :func:`sig` writes it, for tables whose numbers the browser writes."""
    return float(sig(value).replace(",", ""))


def within(value: float, most: float | None) -> str:
    """A rate that cannot be above ``most`` (the load; None: no such bound): never rounded beyond it, and written as the
    load was where it is the load.
    """
    if most is not None and math.isclose(value, most, rel_tol=1e-6):
        return exact(most)
    text = sig(value, 4)
    if most is None or float(text.replace(",", "")) <= most:
        return text
    return exact(min(value, most))


def count(value: float | None) -> str:
    """A whole number with thousands set apart; fractional counts keep three significant digits."""
    if value is None:
        return NONE
    return f"{int(value):,}" if float(value).is_integer() else sig(value)


def exact(value: float | None) -> str:
    """A number that a person gave, as they gave it, with thousands set apart."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def duration(ms: float | None) -> str:
    """Milliseconds as µs, ms, s, min or h, whichever reads shortest."""
    if ms is None:
        return NONE
    if abs(ms) < 1:
        return f"{sig(ms * 1e3)} µs"
    if abs(ms) < 1e3:
        return f"{sig(ms)} ms"
    if abs(ms) < 120e3:
        return f"{sig(ms / 1e3)} s"
    if abs(ms) < 120 * 60e3:
        return f"{sig(ms / 60e3)} min"
    return f"{sig(ms / 3600e3)} h"


def durations(low_ms: float, high_ms: float) -> str:
    """A range of milliseconds, its unit once where both ends have the same."""
    low, high = duration(low_ms), duration(high_ms)
    number, _space, unit = low.partition(" ")
    return f"{number}–{high}" if high.endswith(f" {unit}") else f"{low}–{high}"


def dollars(value: float | None) -> str:
    """US dollars."""
    return NONE if value is None else f"${sig(value)}"


def gib(value: float | None) -> str:
    """GiB."""
    return NONE if value is None else f"{sig(value)} GiB"


def percent(fraction: float | None) -> str:
    """A fraction of one as a percentage without decimals from 10 % on."""
    if fraction is None:
        return NONE
    value = 100 * fraction
    return f"{value:.0f} %" if abs(value) >= 10 or value == 0 else f"{sig(value, 2)} %"


def signed(fraction: float, size: str | None = None) -> str:
    """A change or an error with its sign, none where it is written as zero; ``size`` is how its amount is written
    (:func:`percent` unless given).
    """
    amount = percent(abs(fraction)) if size is None else size
    if not any(digit in amount for digit in "123456789"):
        return amount
    return f"{'+' if fraction > 0 else '−'}{amount}"


def factors(low: float, high: float) -> str:
    """Ends of an interval as factors on a prediction."""
    return f"× {low:.2f}–{high:.2f}"


def span(interval: Interval | None, scale: float = 1.0) -> str | None:
    """The 80 % interval as "low–high" in the metric's unit times ``scale``; None where there is none."""
    if interval is None:
        return None
    return f"{sig(interval.low80 * scale)}–{sig(interval.high80 * scale)}"


def units() -> dict[str, str]:
    """Things that are counted, in the language in use."""
    return {
        "GPUs": _("GPUs"),
        "gpus": _("GPUs"),
        "nodes": _("nodes"),
        "sequences": _("sequences"),
        "requests": _("requests"),
        "tokens": _("tokens"),
        "experts": _("experts"),
        "heads": _("heads"),
        "layers": _("layers"),
        "ranks": _("ranks"),
        "stages": _("stages"),
        "columns": _("columns"),
        "requests/s": _("requests/s"),
    }


def quantity(value: float | None, unit: str | None) -> str:
    """``value`` with its unit, latencies in the unit that reads shortest."""
    if value is None:
        return NONE
    if unit == "ms":
        return duration(value)
    words = units()
    if unit in words:
        return f"{count(value)} {words[unit]}"
    if not unit:
        return count(value) if float(value).is_integer() else sig(value)
    return f"{sig(value)} {unit}"
