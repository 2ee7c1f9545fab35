"""``planner schema``: the JSON Schema of a scenario, a plan or a model specification."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli.options import JsonOption
from planner.cli.output import print_json
from planner.errors import UnknownNameError

SCHEMAS = ("scenario", "plan", "model")


def schema_command(
    what: Annotated[str, typer.Argument(help="scenario, plan or model.")] = "scenario",
    as_json: JsonOption = False,
) -> int:
    """Print the JSON Schema of a format (always JSON)."""
    from pydantic import BaseModel

    from planner.catalog.model_spec import ModelSpec
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Plan

    known: dict[str, type[BaseModel]] = dict(zip(SCHEMAS, (Scenario, Plan, ModelSpec), strict=True))
    if what not in known:
        raise UnknownNameError("schema", what, SCHEMAS)
    document = known[what].model_json_schema(by_alias=True, mode="validation")
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})
    return 0
