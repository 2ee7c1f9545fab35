"""YAML as people mean it, from strangers: YAML 1.2 scalars, no tags, no repeated keys, bounded size and
depth.

YAML 1.1 reads ``no`` as false, ``1e3`` as text, ``010`` as eight and ``1:30`` as ninety; here they are text,
1000.0, text and text, so a slip ends in an error that names the field instead of in another number.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from planner.errors import InputError

MAX_SCENARIO_BYTES = 1 << 20
MAX_PLAN_BYTES = 64 << 20
MAX_DEPTH = 40
MAX_NODES = 2_000_000

try:
    from yaml import CSafeDumper as _BaseDumper
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML without libyaml: slower, same meaning
    from yaml import SafeDumper as _BaseDumper  # type: ignore[assignment]
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

_SCALARS = (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^(?:[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:merge", r"^(?:<<)$", "<"),
)


class _Loader(_BaseLoader):
    """Safe loader that refuses repeated keys."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in getattr(node, "value", ()):
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class _Dumper(_BaseDumper):
    """Quotes exactly the text that :class:`_Loader` would read as something else."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))
    _Dumper.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _represent_list(dumper: Any, data: Any) -> Any:
    """Lists of plain numbers and words on one line, others one entry a line."""
    flow = all(isinstance(x, int | float | str | None) and len(str(x)) < 40 for x in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flow)


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def load_yaml(text: str, where: str, max_bytes: int = MAX_SCENARIO_BYTES) -> Any:
    """Plain data of one YAML document.

    ``where`` names the origin in errors. Raises InputError for text over ``max_bytes``, deeper than 40
    levels, with more than 2 million nodes once aliases are followed, with tags, repeated keys, or broken
    syntax (line and column given).
    """
    size = len(text.encode("utf-8", errors="replace"))
    if size > max_bytes:
        raise InputError(where, f"{size} bytes", f"at most {max_bytes} bytes")
    try:
        _check_shape(text, where)
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError(where, _at(error), f"not YAML that is accepted here: {_problem(error)}") from None
    except ValueError as error:
        raise InputError(where, str(error)[:80], "not YAML that is accepted here: a value cannot be read") from None


def dump_yaml(data: Any) -> str:
    """YAML text of plain data; keys keep their order, floats are written exactly, text stays text."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _check_shape(text: str, where: str) -> None:
    """Depth and expanded size from the event stream, before anything is built (an alias counts as what it
    repeats).
    """
    open_nodes: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
            if len(open_nodes) > MAX_DEPTH:
                raise InputError(where, f"more than {MAX_DEPTH} levels", f"nest at most {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if total > MAX_NODES:
            raise InputError(where, f"more than {MAX_NODES} nodes", f"at most {MAX_NODES} nodes")


def _problem(error: yaml.YAMLError) -> str:
    text = getattr(error, "problem", None) or str(error)
    return " ".join(str(text).split())[:200]


def _at(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "unreadable text"
