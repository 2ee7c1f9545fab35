"""Units. Inside the package everything is SI (bytes, seconds, FLOP/s, bytes/s, watts)."""

from __future__ import annotations

import re

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

_TIGHT_PERCENT = re.compile(r"(?<=\d)%(?!\w)")


def spaced(text: str) -> str:
    """``35%`` as ``35 %``: how percentages stand wherever people read them (app, terminal, reports, documentation)."""
    return _TIGHT_PERCENT.sub(" %", text)
