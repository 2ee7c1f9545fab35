"""The three engines behind one call shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from planner.errors import UnknownNameError
from planner.export.engines import sglang, trtllm, vllm
from planner.export.engines.settings import Settings
from planner.export.flag_lists import flag_list
from planner.export.roles import Deployment, Role
from planner.export.words import Arguments, Word, values


class Engine(Protocol):
    """What an engine's module offers."""

    ENGINE: str

    def program(self, d: Deployment) -> list[Word]: ...

    def settings(self, d: Deployment, role: Role) -> Settings: ...

    def across_hosts(self, d: Deployment, role: Role, first: bool) -> Arguments: ...

    def listen(self, port: Word) -> Arguments: ...

    def front(self, d: Deployment) -> tuple[str, ...]: ...


_ENGINES: dict[str, Engine] = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}


def engine_of(name: str) -> Engine:
    """The module of an engine by its scenario name."""
    if name not in _ENGINES:
        raise UnknownNameError("engine", name, _ENGINES)
    return _ENGINES[name]


def settings_of(d: Deployment, role: Role, engine: str) -> Settings:
    """A role in the engine's words, every flag and value held against the kept list.

    Raises InputError where the engine cannot start the role, UnknownNameError for a flag that the list has not.
    """
    found, kept = engine_of(engine).settings(d, role), flag_list(engine)
    for flag, value in found.arguments:
        kept.check(flag, values(value))
    for name, text in found.environment.items():
        kept.check(name, (text,))
    for key, value in _leaves(found.config):
        kept.check(key, () if isinstance(value, bool) else ("null" if value is None else value,))
    return found


def _leaves(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            yield from _leaves(value, name)
        else:
            yield name, value
