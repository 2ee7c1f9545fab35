"""The engines' own flags, as kept in hardware_db/engine_flags with source and version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.catalog.loader import data_root
from planner.errors import UnknownNameError
from planner.scenario.safe_yaml import load_yaml

TITLES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
_FOLDER = "hardware_db/engine_flags"


@dataclass(frozen=True)
class Flag:
    """One flag or configuration key: spelling, other spellings, type, default, meaning, where it was read."""

    name: str
    aliases: tuple[str, ...]
    group: str
    type: str
    default: Any
    meaning: str
    version: str
    source: str
    note: str | None = None


@dataclass(frozen=True)
class FlagList:
    """The flags of one engine at one version."""

    engine: str
    version: str
    flags: Mapping[str, Flag]

    def __contains__(self, name: object) -> bool:
        return name in self.flags or any(name in f.aliases for f in self.flags.values())

    def require(self, name: str) -> str:
        """``name`` itself; raises UnknownNameError where the engine has no such flag."""
        if name not in self:
            raise UnknownNameError(f"{self.engine} {self.version}: flag", name, self.flags)
        return name


@cache
def flag_list(engine: str) -> FlagList:
    """The kept flags of ``engine`` (vllm, sglang, trtllm, sglang-router, dynamo)."""
    data = read_file(engine)
    flags = [_flag(entry) for entry in data["flags"]]
    return FlagList(str(data["engine"]), str(data["version"]), {f.name: f for f in flags})


@cache
def kubernetes() -> Mapping[str, Any]:
    """Device-plugin resources by vendor, images and ports that manifests name."""
    return read_file("kubernetes")


def read_file(name: str) -> Any:
    """Plain data of ``hardware_db/engine_flags/<name>.yaml``."""
    path = data_root() / _FOLDER / f"{name}.yaml"
    return load_yaml(path.read_text(encoding="utf-8"), path.name)


def _flag(entry: Mapping[str, Any]) -> Flag:
    """``--tp-size (--tp, --tensor-parallel-size)`` is a name and its aliases."""
    match = re.fullmatch(r"(\S+)(?: \((.+)\))?", str(entry["name"]))
    assert match is not None, entry["name"]
    aliases = tuple(a.strip() for a in (match[2] or "").split(",") if a.strip())
    return Flag(
        match[1],
        aliases,
        str(entry["group"]),
        str(entry["type"]),
        entry["default"],
        str(entry["meaning"]),
        str(entry["version"]),
        str(entry["source"]),
        None if entry.get("note") is None else str(entry["note"]),
    )
