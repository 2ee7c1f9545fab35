"""Turns schema violations into one sentence: which field, what was given, what is allowed, what was meant."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from planner.errors import InputError, nearest

M = TypeVar("M", bound=BaseModel)

OTHERS_NAMED = 3
"""Further violations that a sentence names; of more it says how many."""
_BOUNDS = {
    "greater_than": ("gt", "must be greater than {}"),
    "greater_than_equal": ("ge", "must be at least {}"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "too_short": ("min_length", "needs at least {} entries"),
    "too_long": ("max_length", "takes at most {} entries"),
}
_TYPES = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
}


def validate(model_cls: type[M], data: object, where: str) -> M:
    """``data`` as an instance of ``model_cls``.

    ``where`` names the origin (a file, or "scenario") and starts the sentence. Raises InputError naming the
    dotted field, what was given and what is allowed; for an unknown key, the nearest valid one.
    """
    try:
        return model_cls.model_validate(data)
    except ValidationError as error:
        raise input_error(model_cls, error, where) from None


def input_error(model_cls: type[BaseModel], error: ValidationError, where: str) -> InputError:
    """The most useful violation of ``error`` as an InputError (unknown keys first: they explain the rest)."""
    details = error.errors(include_url=False)
    details.sort(key=lambda e: e["type"] != "extra_forbidden")
    first = details[0]
    path, parent = _walk(model_cls, first["loc"])
    dotted = ".".join(path)
    field = f"{where}: {dotted}" if dotted else where
    others = {_walk(model_cls, e["loc"])[0] for e in details} - {path}
    names = ", ".join(".".join(p) for p in sorted(others)[:OTHERS_NAMED])
    if len(others) > OTHERS_NAMED:
        names += f" and {len(others) - OTHERS_NAMED} more"
    error_s = "error" if len(others) == 1 else "errors"
    more = f" (and {len(others)} more {error_s}: {names})" if others else ""
    return InputError(field, _given(first), _allowed(first, parent) + more)


def field_names(model_cls: type[BaseModel]) -> list[str]:
    """Keys that ``model_cls`` accepts, in order."""
    return [info.alias or name for name, info in model_cls.model_fields.items()]


def _given(detail: ErrorDetails) -> object:
    if detail["type"] == "missing":
        return None
    if detail["type"] == "extra_forbidden":
        return str(detail["loc"][-1])
    return detail["input"]


def _allowed(detail: ErrorDetails, parent: object) -> str:
    kind, ctx = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(str(detail["loc"][-1]), parent)
    if kind == "missing":
        return "this key is required"
    if kind in _BOUNDS:
        key, sentence = _BOUNDS[kind]
        bound = ctx.get(key)
        return sentence.format(f"{bound:,.12g}" if isinstance(bound, int | float) else bound)
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in ("literal_error", "enum"):
        return _choices(detail["input"], str(ctx.get("expected", "")))
    if kind == "union_tag_invalid":
        tag = str(ctx.get("tag"))
        return _choices(tag, str(ctx.get("expected_tags", ""))) + f" for {ctx.get('discriminator')}"
    if kind == "union_tag_not_found":
        return f"must say which kind it is by the key {ctx.get('discriminator')}"
    message = detail["msg"]
    return message.removeprefix("Value error, ")[:400]


def _unknown_key(given: str, parent: object) -> str:
    names = field_names(parent) if isinstance(parent, type) and issubclass(parent, BaseModel) else []
    near = nearest(given, names)
    if near:
        return f"unknown key, did you mean {' or '.join(near)}?"
    return f"unknown key, allowed: {', '.join(names)}" if names else "unknown key"


def _choices(given: object, expected: str) -> str:
    names = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",") if part.strip()]
    near = nearest(given, names) if isinstance(given, str) else []
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"allowed: {', '.join(names)}{hint}"


def _walk(model_cls: type[BaseModel], loc: Iterable[int | str]) -> tuple[tuple[str, ...], object]:
    """The path a reader knows (without union tags) and the schema that holds its last key."""
    current: object = model_cls
    parent: object = model_cls
    path: list[str] = []
    for element in loc:
        members = _members(current)
        if len(members) > 1 and (chosen := _tagged(members, element)) is not None:
            current = chosen
            continue
        parent = next((m for m in members if _child(m, element) is not None), members[0] if members else None)
        if isinstance(parent, type) and not issubclass(parent, BaseModel) and path:
            continue  # the label of a scalar member of a plain union, unknown to readers
        current = _child(parent, element)
        path.append(str(element))
    return tuple(path), parent


def _members(annotation: object) -> list[object]:
    """The alternatives of an annotation, unions flattened and Annotated removed (except for tags)."""
    origin = get_origin(annotation)
    if origin is Annotated:
        args = get_args(annotation)
        if any(isinstance(a, Tag) for a in args[1:]):
            return [annotation]
        return _members(args[0])
    if origin in (Union, types.UnionType):
        return [m for a in get_args(annotation) if a is not type(None) for m in _members(a)]
    return [annotation]


def _tagged(members: list[object], element: int | str) -> object | None:
    for member in members:
        bare = member
        if get_origin(member) is Annotated:
            bare, *extras = get_args(member)
            if any(isinstance(a, Tag) and a.tag == element for a in extras):
                return bare
        if isinstance(bare, type) and issubclass(bare, BaseModel):
            if element == bare.__name__:
                return bare
            literals = [a for f in bare.model_fields.values() for a in _literal_values(f)]
            if element in literals and str(element) not in bare.model_fields:
                return bare
    return None


def _literal_values(info: FieldInfo) -> tuple[object, ...]:
    return get_args(info.annotation) if get_origin(info.annotation) is Literal else ()


def _child(annotation: object, element: int | str) -> object | None:
    """The schema below ``annotation`` at a key or index; None where there is none."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if element in (name, info.alias):
                return info.annotation
        return None
    origin, args = get_origin(annotation), [a for a in get_args(annotation) if a is not Ellipsis]
    if isinstance(origin, type) and issubclass(origin, Mapping) and args:
        return args[-1]
    if origin in (list, tuple, set, frozenset) and args:
        return args[min(int(element), len(args) - 1)] if isinstance(element, int) else args[0]
    return None


def check_mapping(data: Any, where: str) -> dict[str, Any]:
    """``data`` if it is a mapping with text keys, else InputError."""
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise InputError(where, data, "must be a mapping of keys to values")
    return data
