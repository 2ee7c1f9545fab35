"""What a stranger may hand in: scenario or plan YAML, and a model's config.json. Bounded, parsed safely, and never
a path that the server would open.
"""

from __future__ import annotations

import json
from typing import Any

from planner.catalog.hf_config import spec_from_hf_config
from planner.catalog.model_spec import ModelSpec
from planner.catalog.validation import check_mapping, validate
from planner.errors import InputError
from planner.scenario.load import scenario_from_data
from planner.scenario.safe_yaml import MAX_SCENARIO_BYTES, load_yaml
from planner.scenario.schema import SCHEMA_VERSION, Scenario
from planner.search.plan_schema import PLAN_VERSION, Plan
from planner.ui.i18n import _
from planner.units import MIB

MAX_UPLOAD_BYTES = 5 * MIB
MAX_CONFIG_BYTES = MAX_SCENARIO_BYTES
MAX_JSON_DEPTH = 20
_PATH_ENDINGS = (".yaml", ".yml", ".json")


def decode(raw: bytes, where: str, max_bytes: int = MAX_UPLOAD_BYTES) -> str:
    """UTF-8 text of an upload; raises InputError for one that is too large or not text."""
    if len(raw) > max_bytes:
        raise InputError(where, f"{len(raw)} bytes", f"at most {max_bytes} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(where, "bytes that are not text", "UTF-8 text is needed") from None


def mapping_from_text(text: str, where: str) -> dict[str, Any]:
    """The mapping in YAML text, bounded and parsed safely; raises InputError in one sentence."""
    return check_mapping(load_yaml(text, where, MAX_UPLOAD_BYTES), where)


def scenario_from_mapping(data: dict[str, Any], where: str) -> Scenario:
    """The scenario in plain data; of a plan, the scenario that it answers."""
    version = data.get("schema")
    if version is not None and version not in (SCHEMA_VERSION, PLAN_VERSION):
        raise InputError(f"{where}: schema", version, f"allowed: {SCHEMA_VERSION}, {PLAN_VERSION}")
    if version == PLAN_VERSION:
        data = check_mapping(data.get("scenario"), f"{where}: scenario")
    model = data.get("model")
    if isinstance(model, str) and data.get("model_spec") is None and model.lower().endswith(_PATH_ENDINGS):
        raise InputError(
            "model",
            model,
            _("the page opens no files; choose a model of the catalogue or paste its config.json"),
        )
    return scenario_from_data(data, None, where)


def plan_from_text(text: str, where: str) -> Plan:
    """The plan in YAML text; raises InputError in one sentence."""
    data = mapping_from_text(text, where)
    if data.get("schema") != PLAN_VERSION:
        raise InputError(
            where,
            data.get("schema"),
            _("a plan is needed: its first line is schema: {version}").format(version=PLAN_VERSION),
        )
    scenario_from_mapping(check_mapping(data.get("scenario"), f"{where}: scenario"), where)
    return validate(Plan, data, where)


def spec_from_config(text: str, name: str) -> ModelSpec:
    """The model that a pasted Hugging Face config.json describes, called ``name`` where one is given.

    Raises InputError (UnsupportedArchitectureError names the keys that are not understood).
    """
    where = "config.json"
    if not text.strip():
        raise InputError(where, "", _("paste the text of a config.json first"))
    if len(text.encode("utf-8", errors="replace")) > MAX_CONFIG_BYTES:
        raise InputError(where, f"{len(text)} characters", f"at most {MAX_CONFIG_BYTES} bytes")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(where, f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(where, "deeply nested text", f"at most {MAX_JSON_DEPTH} levels") from None
    if depth(data) > MAX_JSON_DEPTH:
        raise InputError(where, "deeply nested text", f"at most {MAX_JSON_DEPTH} levels")
    return spec_from_hf_config(check_mapping(data, where), identifier(name))


def identifier(name: str) -> str | None:
    """``name`` as an id: letters, digits, dots and dashes; None where nothing is left."""
    kept = "".join(c if c.isalnum() or c in ".-_" else "-" for c in name.strip())[:80].strip("-.")
    return kept.lower() or None


def depth(data: object) -> int:
    """Levels of nesting, counted to one beyond what is allowed."""
    level, deepest = [data], 0
    while level:
        deepest += 1
        if deepest > MAX_JSON_DEPTH:
            break
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return deepest
