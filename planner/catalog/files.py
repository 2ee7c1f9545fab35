"""Reading YAML and JSON files: safe loader, no duplicate keys, bounded size, errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from planner.errors import InputError
from planner.units import MIB

MAX_FILE_BYTES = 4 * MIB
"""Catalogue files are tens of kilobytes; anything larger is a mistake or an attack on the parser."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """Safe YAML without keys written twice (the second would silently win) and without aliases of lists or mappings
    (nested ones grow without bound when written out)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.CollectionNode) and node in self.constructed_objects:
            raise yaml.constructor.ConstructorError(None, None, "an alias is not allowed here", node.start_mark)
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} twice", key_node.start_mark)
            seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_text(path: Path) -> str:
    """The text of a file. Raises InputError where it is missing, not text, or larger than MAX_FILE_BYTES."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(str(path), f"{size} bytes", f"a file of at most {MAX_FILE_BYTES} bytes")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), path.name, f"cannot be read: {error}") from None


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """A YAML mapping from ``text``; dates stay text."""
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        lines = text.splitlines()
        given = lines[mark.line].strip() if mark is not None and mark.line < len(lines) else text[:40].strip()
        raise InputError(where, given, f"YAML; {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise InputError(where, data, "must be a mapping of keys to values")
    return data


def read_yaml(path: Path) -> dict[str, Any]:
    return parse_yaml(read_text(path), str(path))


def read_json(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        line = (text.splitlines() or [""])[min(error.lineno, text.count("\n") + 1) - 1 :][:1]
        allowed = f"JSON; {error.msg[:1].lower()}{error.msg[1:]} in line {error.lineno}, column {error.colno}"
        raise InputError(str(path), line[0].strip() if line else "", allowed) from None
    except RecursionError:
        raise InputError(str(path), text[:40], "JSON that is nested less deeply") from None
    if not isinstance(data, dict):
        raise InputError(str(path), data, "must be a mapping of keys to values")
    return data


# Dates are read as text: schemas hold them as written ("2026-04" is no date to YAML, "2026-04-15" would be).
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
