"""Why candidates fail: one typed reason each, grouped, with the nearest miss and the smallest change that
would help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import UnknownNameError
from planner.layout.enumeration import RejectedLayouts
from planner.serving.rows import put

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Reason:
    """A limit that a candidate breaks: it needs more than there is (``at_most``), or reaches less
    (``at_least``).
    """

    id: str
    unit: str
    limit: Literal["at_most", "at_least"]
    text: str
    """With {needed} and {available}."""


REASONS: dict[str, Reason] = {
    r.id: r
    for r in (
        Reason("memory", "GiB", "at_most", "needs {needed} of {available} GiB on its fullest GPU"),
        Reason(
            "kv_cache",
            "GiB",
            "at_most",
            "one request of the longest length needs {needed} GiB of KV, {available} are free",
        ),
        Reason("max_gpus", "GPUs", "at_most", "needs {needed} GPUs, {available} are allowed"),
        Reason("nodes", "nodes", "at_most", "needs {needed} nodes for the load, {available} are allowed"),
        Reason("slo_ttft", "ms", "at_most", "TTFT is {needed} ms, the limit {available} ms"),
        Reason("slo_tbt", "ms", "at_most", "TBT is {needed} ms, the limit {available} ms"),
        Reason("slo_tpot", "ms", "at_most", "TPOT is {needed} ms, the limit {available} ms"),
        Reason("slo_e2e", "ms", "at_most", "a whole request takes {needed} ms, the limit is {available} ms"),
        Reason("rate", "requests/s", "at_most", "the load is {needed} requests/s, {available} are reached"),
        Reason("completion", "", "at_most", "the completion rate must be {needed}, {available} is reached"),
        Reason("operator_data", "", "at_most", "no operator times for this accelerator and format"),
    )
}
"""``needed`` is always what the candidate needs or reaches, ``available`` the limit; for ``rate`` the load and what is
reached. All are short by needed - available."""


@dataclass(frozen=True)
class Rejections:
    """The reason of every candidate; arrays (n,)."""

    names: tuple[str, ...]
    """Reasons by code."""
    code: IntArray
    """Index into ``names``; -1 is feasible."""
    needed: FloatArray
    available: FloatArray

    @property
    def feasible(self) -> NDArray[np.bool_]:
        return self.code < 0

    def updated(self, rows: IntArray, part: Rejections) -> Rejections:
        """With the verdict on candidates at positions ``rows`` replaced by that of ``part``."""
        names = (*self.names, *(name for name in part.names if name not in self.names))
        code = np.array([*(names.index(name) for name in part.names), -1])[part.code]
        return Rejections(
            names,
            put(self.code, rows, code),
            put(self.needed, rows, part.needed),
            put(self.available, rows, part.available),
        )


@dataclass(frozen=True)
class RejectionGroup:
    """What a plan says about one reason: the keys of its ``rejected`` entries."""

    reason: str
    count: int
    needed: float | None
    available: float | None
    unit: str | None
    example: str
    fix: str | None
    term: str | None = None
    fits_gpus: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "count": self.count,
            "term": self.term,
            "needed": self.needed,
            "available": self.available,
            "unit": self.unit,
            "example": self.example,
            "fix": self.fix,
            "fits_gpus": self.fits_gpus,
        }


@dataclass
class Judge:
    """Collects checks in order; the first one that a candidate breaks is its reason."""

    count: int
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._code = np.full(self.count, -1, dtype=np.int64)
        self._needed = np.full(self.count, np.nan)
        self._available = np.full(self.count, np.nan)

    def check(self, reason: str, needed: ArrayLike, available: ArrayLike, broken: ArrayLike | None = None) -> None:
        """Reject what needs more than is available (or where ``broken``), unless it already has a reason.

        NaN in ``needed`` fails the check: what could not be computed is never taken as good.
        """
        if reason not in REASONS:
            raise UnknownNameError("reason", reason, REASONS)
        want = np.broadcast_to(np.asarray(needed, dtype=np.float64), (self.count,))
        have = np.broadcast_to(np.asarray(available, dtype=np.float64), (self.count,))
        failed = ~(want <= have) if broken is None else np.broadcast_to(np.asarray(broken, dtype=bool), (self.count,))
        new = failed & (self._code < 0)
        if reason not in self.names:
            self.names.append(reason)
        self._code[new] = self.names.index(reason)
        self._needed[new] = want[new]
        self._available[new] = have[new]

    def done(self) -> Rejections:
        return Rejections(tuple(self.names), self._code, self._needed, self._available)


EARLY = {"memory": 0, "kv_cache": 0, "operator_data": 0, "max_gpus": 0, "rate": 1}
"""How far a candidate came before its reason: it does not hold the model, or not the load. Whoever misses a limit or
the nodes allowed came further; layouts that the engine does not run come first of all."""
LATE = 2


def progress(reason: str) -> int:
    """How far a candidate with this reason came; more is nearer to serving the scenario."""
    late = reason.startswith("slo_") or reason in ("completion", "nodes")
    return LATE if late else EARLY.get(reason, -1)


def nearest_misses(
    rejections: Rejections, cost: ArrayLike, count: int = 5, twice: NDArray[np.bool_] | None = None
) -> IntArray:
    """Rejected candidates by how far they came, then by how little they miss (needed / available), then by ``cost``
    (n,), closest first. Those that break a second limit as well (``twice``, (n,)) follow those that break one.
    """
    rejected = np.flatnonzero(~rejections.feasible)
    came = np.array([progress(name) for name in rejections.names], dtype=np.int64)[rejections.code[rejected]]
    second = np.zeros(rejected.size, dtype=bool) if twice is None else twice[rejected]
    ratio = _ratio(rejections, rejected)
    order = np.lexsort((rejected, np.asarray(cost)[rejected], ratio, second, -came))
    return rejected[order[:count]].astype(np.int64)


def group(
    rejections: Rejections,
    describe: Callable[[int], str],
    fixes: Mapping[str, Callable[[int], str | None]] | None = None,
    terms: Mapping[str, Callable[[int], str | None]] | None = None,
) -> tuple[RejectionGroup, ...]:
    """One entry for each reason, most frequent first; the example is the candidate that misses by the least.

    ``describe(i)`` names candidate i; ``fixes[reason](i)`` says the smallest change that makes it fit,
    ``terms[reason](i)`` which term decided.
    """
    entries = []
    for code, name in enumerate(rejections.names):
        members = np.flatnonzero(rejections.code == code)
        if not members.size:
            continue
        ratio = _ratio(rejections, members)
        i = int(members[np.argmin(ratio)])
        fix = (fixes or {}).get(name)
        term = (terms or {}).get(name)
        reason = REASONS[name]
        entries.append(
            RejectionGroup(
                reason=name,
                count=int(members.size),
                needed=_plain(rejections.needed[i]),
                available=_plain(rejections.available[i]),
                unit=reason.unit or None,
                example=f"{describe(i)}: {sentence(reason, rejections.needed[i], rejections.available[i])}",
                fix=None if fix is None else fix(i),
                term=None if term is None else term(i),
            )
        )
    return tuple(sorted(entries, key=lambda e: (-e.count, e.reason)))


def from_layouts(rejected: Sequence[RejectedLayouts], where: str) -> tuple[RejectionGroup, ...]:
    """Illegal layouts as entries of the same kind; ``where`` names node and engine."""
    return tuple(
        RejectionGroup(
            reason=r.reason,
            count=r.count,
            needed=r.needed,
            available=r.available,
            unit=r.unit,
            example=f"{r.example} on {where}: {r.sentence}",
            fix=r.fix,
        )
        for r in rejected
    )


def merge(groups: Sequence[RejectionGroup]) -> tuple[RejectionGroup, ...]:
    """Entries with the same reason and term added up (several nodes, both pools); the first example stays."""
    merged: dict[tuple[str, str | None], RejectionGroup] = {}
    for entry in groups:
        key = (entry.reason, entry.term)
        if key in merged:
            old = merged[key]
            entry = RejectionGroup(**{**old.to_dict(), "count": old.count + entry.count})
        merged[key] = entry
    return tuple(sorted(merged.values(), key=lambda e: (-e.count, e.reason)))


def sentence(reason: Reason, needed: float, available: float) -> str:
    """The reason in words with its numbers."""
    if reason.id.startswith("slo_") and not np.isfinite(needed):
        return "no steady state: the load is more than the workers pass"
    want, have = told_apart(needed, available)
    return reason.text.format(needed=want, available=have)


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see which is larger."""
    texts = (number(a), number(b))
    digits = 4
    while texts[0] == texts[1] and a != b and np.isfinite(a) and np.isfinite(b) and digits < 12:
        texts = (f"{a:,.{digits}g}", f"{b:,.{digits}g}")
        digits += 1
    return texts


def number(value: float) -> str:
    """A number as people write it: three significant digits below a hundred, whole above."""
    if not np.isfinite(value):
        return "an unknown number of" if np.isnan(value) else "unlimited"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _ratio(rejections: Rejections, members: IntArray) -> FloatArray:
    """How far over the limit: needed / available, infinite where that is not defined."""
    needed, available = rejections.needed[members], rejections.available[members]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(available > 0, needed / available, np.inf)
    return np.where(np.isnan(ratio), np.inf, ratio)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
