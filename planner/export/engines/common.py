"""The three engines behind one call shape."""

from __future__ import annotations

from typing import Protocol

from planner.errors import UnknownNameError
from planner.export.engines import sglang, trtllm, vllm
from planner.export.engines.settings import Settings
from planner.export.roles import Deployment, Role
from planner.export.words import Arguments, Word


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
