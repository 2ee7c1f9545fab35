"""Where two documents differ, key by key: scenarios, identity tuples, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, keys joined by dots; lists of mappings by index, other lists whole."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out |= flat(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            out |= flat({str(i): v for i, v in enumerate(value)}, f"{name}.")
        else:
            out[name] = value
    return out


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Key -> (value in a, value in b) where flat mappings differ, a's keys first; None where a key is not there."""
    keys = [*a, *(k for k in b if k not in a)]
    return {k: (a.get(k), b.get(k)) for k in keys if a.get(k) != b.get(k)}
