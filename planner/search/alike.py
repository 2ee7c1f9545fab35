"""Candidates that would read the same in a list: the engine settings that tell them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from planner.search.plan_schema import Candidate, OperatingPoint

SETTINGS = {"tokens": "max_num_batched_tokens", "two_batch": "two_batch_overlap"}
"""What may differ between deployments of the same workers -> its field in the settings."""


def apart(candidates: Iterable[Candidate]) -> dict[int, dict[str, int | bool | None]]:
    """Rank -> setting (``tokens`` of a step, ``two_batch``, for a prefill pool with ``prefill_`` before it) -> value,
    of candidates that have the workers of another one and differ from it in that setting; none of the others.
    """
    groups: defaultdict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for c in candidates:
        groups[_workers(c)].append(c)
    found: dict[int, dict[str, int | bool | None]] = {}
    for alike in groups.values():
        values = {c.rank: _settings(c) for c in alike}
        names = [n for n in values[alike[0].rank] if len({v[n] for v in values.values()}) > 1]
        found |= {rank: {n: own[n] for n in names} for rank, own in values.items() if names}
    return found


def apart_text(differing: dict[str, int | bool | None] | None) -> str:
    """`` · 16,384 tokens a step``, to stand behind a layout; nothing where nothing differs."""
    parts = []
    for name, value in (differing or {}).items():
        pool = "prefill " if name.startswith("prefill_") else ""
        if name.endswith("tokens"):
            parts.append(f"{pool}{value:,} tokens a step" if value is not None else "")
        else:
            parts.append(f"{pool}two-batch overlap" if value else "")
    return "".join(f" · {part}" for part in parts if part)


def _workers(c: Candidate) -> tuple[object, ...]:
    pool = c.prefill_pool
    prefill = None if pool is None else (pool.node, pool.layout.describe(), pool.workers)
    return c.node, c.serving, c.layout.describe(), c.replicas, c.gpus, prefill


def _settings(c: Candidate) -> dict[str, int | bool | None]:
    def of(point: OperatingPoint, before: str) -> dict[str, int | bool | None]:
        return {f"{before}{name}": getattr(point, field) for name, field in SETTINGS.items()}

    own = of(c.settings, "")
    return own if c.prefill_pool is None else {**of(c.prefill_pool.settings, "prefill_"), **own}
