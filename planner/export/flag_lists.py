"""The engines' own flags, as kept in hardware_db/engine_flags with source and version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.catalog.loader import data_root
from planner.errors import InputError, UnknownNameError
from planner.scenario.safe_yaml import load_yaml

TITLES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
_FOLDER = "hardware_db/engine_flags"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")


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
    values: tuple[str, ...] = ()
    """The values it takes, where they are few and kept; none: anything of its type."""

    def check(self, given: tuple[object, ...]) -> None:
        """Raises InputError for the wrong number of values, or for one that the flag does not take.

        A value whose text begins with ``$`` is filled in where the command runs.
        """
        kind = self.type.lower()
        many, switch = "list" in kind, kind == "bool"
        if (switch and given) or (not switch and not given) or (not many and len(given) > 1):
            raise InputError(self.name, list(given), f"{'no value' if switch else 'a value'} ({self.type})")
        texts = [text for text in map(str, given) if not text.strip('"').startswith("$")]
        for text in texts:
            if self.values and text not in self.values:
                raise InputError(self.name, text, f"one of {', '.join(self.values)}")
            number = kind.startswith(("int", "optional[int]", "float", "optional[float]"))
            if number and not _NUMBER.fullmatch(text):
                raise InputError(self.name, text, f"a number ({self.type})")


@dataclass(frozen=True)
class FlagList:
    """The flags of one engine at one version."""

    engine: str
    version: str
    flags: Mapping[str, Flag]

    def __contains__(self, name: object) -> bool:
        return name in self.flags or any(name in f.aliases for f in self.flags.values())

    def check(self, name: str, given: tuple[object, ...]) -> None:
        """Raises UnknownNameError where the engine has no flag ``name``, InputError for values it does not take."""
        for flag in self.flags.values():
            if name == flag.name or name in flag.aliases:
                return flag.check(given)
        raise UnknownNameError(f"{self.engine} {self.version}: flag", name, self.flags)


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
        tuple(str(v) for v in entry.get("values", ())),
    )
