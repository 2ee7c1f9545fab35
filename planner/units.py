"""Units. Inside the package everything is SI (bytes, seconds, FLOP/s, bytes/s, watts)."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from math import floor, log10

KIB = 1024
MIB = 1024**2
GIB = 1024**3
KILO = 1e3
MEGA = 1e6
GIGA = 1e9
TERA = 1e12
MICROSECOND = 1e-6
MILLISECOND = 1e-3
HOUR_S = 3600.0
DAY_S = 86400.0
BYTES_PER_GBIT = 1e9 / 8

WHOLE_BELOW = 10_000
"""Counts and rates from a thousand up to here are shown whole: of a load of 1,605, 1,610 reads like another number."""
_MOST_DECIMALS = 8
_TIGHT_PERCENT = re.compile(r"(?<=\d)%(?!\w)")


def stays_whole(value: float) -> bool:
    """Whether people read ``value`` to the last whole digit, where others have three digits."""
    return 1_000 <= abs(value) < WHOLE_BELOW


def half_up(value: float, digits: int) -> Decimal:
    """``value`` (finite, not 0) at ``digits`` significant digits, halves away from zero: as browsers round the numbers
    of a table, so that one number reads the same in app, terminal, report and table. Python's own formats round halves
    to even: 312.5 would be 312 here and 313 there.
    """
    exact = Decimal(repr(float(value)))
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), ROUND_HALF_UP)


def uptime(share: float) -> str:
    """A share of the time close to one in percent, to two digits of what is missing: ``99.24 %``, ``99.9986 %``; where
    less is missing than is shown, ``> 99.99999999 %``.
    """
    missing = 100.0 * (1.0 - share)
    if 0.0 < missing < 10.0**-_MOST_DECIMALS:
        return f"> {100.0 - 10.0**-_MOST_DECIMALS:.{_MOST_DECIMALS}f} %"
    decimals = 2 if missing <= 0.0 else min(max(1 - floor(log10(missing)), 2), _MOST_DECIMALS)
    return f"{100.0 * share:.{decimals}f} %"


def spaced(text: str) -> str:
    """``35%`` as ``35 %``: how percentages stand wherever people read them (app, terminal, reports, documentation)."""
    return _TIGHT_PERCENT.sub(" %", text)
