"""Reference pages from the code itself: every key of scenario and plan, every formula with units and source.

``python -m planner.export.reference docs/reference`` writes them; pages written by hand beside them are left alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

MARK = "<!-- Written by `make docs` from the code; edit the docstrings or descriptions there. -->\n"
FORMULA_ROOMS = (
    *("model", "hardware", "layout", "roofline", "memory", "serving", "economics", "replay", "search", "evidence"),
)
"""Rooms whose public functions are formulas; a module counts when one of its docstrings is longer than a line."""
OWN_PAGE = {"ModelSpec": "model-specification.md", "Scenario": "scenario.md"}
"""Definitions that other pages link to instead of repeating them."""


def pages() -> dict[str, str]:
    """File name -> Markdown of every generated page."""
    from planner.catalog.model_spec import ModelSpec
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Plan

    out = {
        "scenario.md": schema_page("The scenario", Scenario),
        "plan.md": schema_page("The plan", Plan),
        "model-specification.md": schema_page("The model specification", ModelSpec),
    }
    root = Path(__file__).resolve().parents[1]
    for room in FORMULA_ROOMS:
        text = "".join(module_section(path) for path in sorted((root / room).glob("*.py")))
        if text:
            out[f"formulas-{room}.md"] = f"{MARK}\n# Formulas: {room}\n{text}"
    out["spreadsheet.md"] = f"{MARK}\n# Functions for spreadsheets and notebooks\n{_sheet(root / 'sheet')}"
    return out


def _sheet(folder: Path) -> str:
    """Every public function of ``planner.sheet``."""
    return "".join(module_section(path) for path in sorted(folder.glob("*.py")))


def write_pages(folder: Path) -> list[Path]:
    """Writes every page into ``folder``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def schema_page(title: str, model: type[BaseModel]) -> str:
    """Every key of a schema: the mapping it belongs to, its type, bounds, default and meaning."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    parts = [MARK, f"# {title}\n", _mapping(model.__name__, schema)]
    parts += [_mapping(name, body) for name, body in _reached(schema, definitions) if "properties" in body]
    return "\n".join(parts)


def _mapping(name: str, body: dict[str, Any]) -> str:
    required = set(body.get("required", ()))
    lines = [f"## {name}\n"]
    if body.get("description"):
        lines.append(f"{_one_line(body['description'])}\n")
    lines.append("| key | type | default | meaning |")
    lines.append("|---|---|---|---|")
    for key, prop in body["properties"].items():
        default = "required" if key in required else _default(prop)
        lines.append(f"| `{key}` | {_type(prop)} | {default} | {_one_line(prop.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _reached(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Definitions in the order in which a reader meets them."""
    seen: list[str] = []
    queue = list(_references(schema.get("properties", {})))
    while queue:
        name = queue.pop(0)
        if name not in seen and name not in OWN_PAGE:
            seen.append(name)
            queue += _references(definitions[name])
    return ((name, definitions[name]) for name in seen)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit("/", 1)[-1]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _type(prop: dict[str, Any]) -> str:
    if "$ref" in prop:
        name = prop["$ref"].rsplit("/", 1)[-1]
        return f"[{name}]({OWN_PAGE.get(name, f'#{name.lower()}')})"
    for key in ("anyOf", "oneOf"):
        if key in prop:
            return " or ".join(dict.fromkeys(_type(p) for p in prop[key] if p.get("type") != "null"))
    if "const" in prop:
        return f"`{prop['const']}`"
    if "enum" in prop:
        return ", ".join(f"`{v}`" for v in prop["enum"])
    kind = str(prop.get("type", "any"))
    if kind == "array":
        return f"list of {_type(prop['items'])}" if isinstance(prop.get("items"), dict) else "list"
    if kind == "object":
        inner = prop.get("additionalProperties")
        return f"mapping to {_type(inner)}" if isinstance(inner, dict) else "mapping"
    return _WORDS.get(kind, kind) + _bounds(prop)


_WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_SIGNS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))


def _bounds(prop: dict[str, Any]) -> str:
    found = [f"{sign} {prop[key]:,}" for key, sign in _SIGNS if key in prop]
    return f" ({', '.join(found)})" if found else ""


def _default(prop: dict[str, Any]) -> str:
    value = prop.get("default")
    return "" if value in (None, [], {}) else f"`{value}`"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def module_section(path: Path) -> str:
    """A module's public functions with signature and docstring; empty where none says more than one line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = [
        (node, ast.get_docstring(node) or "")
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    if not any("\n" in text for _, text in documented):
        return ""
    name = ".".join(path.with_suffix("").parts[path.parts.index("planner") :])
    parts = [f"\n## {name}\n", ast.get_docstring(tree) or "", ""]
    for node, text in documented:
        if text:
            parts += [f"### {node.name}\n", f"```python\n{_signature(node)}\n```\n", text, ""]
    return "\n".join(parts)


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


if __name__ == "__main__":
    for page in write_pages(Path(sys.argv[1])):
        print(page)
