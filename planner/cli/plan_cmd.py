"""``planner plan``: from a scenario, or from a plan's own scenario, to a ranked and explained plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import EXIT_INFEASIBLE, CatalogOption, JsonOption
from planner.cli.output import log, print_json, write_text
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Plan


def plan_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML whose scenario is planned again.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan as YAML that loads back.")] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="How many candidates to show.")] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rank every legal layout that serves the scenario within its SLO, and say why the others fail."""
    from planner.catalog import catalog as open_catalog
    from planner.scenario.load import check_names
    from planner.search.headline import headline
    from planner.search.planning import plan

    question = read_question(scenario)
    known = open_catalog(catalog)
    check_names(question, known)
    answer = plan(question, catalog=known)
    if out is not None:
        write_text(out, answer.to_yaml())
        log(f"plan written to {out}")
    if as_json:
        document = answer.model_dump(mode="json")
        if top is not None:
            document["candidates"] = document["candidates"][:top]
        print_json(document)
    else:
        from planner.cli.render_plan import render_plan

        render_plan(answer, top or 10)
    if answer.best is None:
        log(f"planner: {headline(answer)}")
        return EXIT_INFEASIBLE
    return 0


def read_question(path: Path) -> Scenario:
    """The scenario in a scenario file or inside a plan file, told apart by their ``schema`` key."""
    from planner.scenario.load import read_text, scenario_from_data
    from planner.scenario.safe_yaml import MAX_PLAN_BYTES, MAX_SCENARIO_BYTES, load_yaml

    text = read_text(path, MAX_PLAN_BYTES)
    is_plan = any(line.startswith("schema: planner.plan/") for line in text.splitlines()[:50])
    if is_plan:
        return read_plan(path).scenario
    data = load_yaml(text, path.name, MAX_SCENARIO_BYTES)
    return scenario_from_data(data, path.resolve().parent, path.name)


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file; a scenario in its place gets a sentence of its own."""
    from planner.scenario.load import read_text
    from planner.scenario.safe_yaml import MAX_PLAN_BYTES
    from planner.search.plan_schema import Plan

    text = read_text(path, MAX_PLAN_BYTES)
    if any(line.startswith("schema: planner.scenario/") for line in text.splitlines()[:50]):
        raise InputError(path.name, "a scenario", "a plan file, as written by planner plan SCENARIO.yaml --out")
    return Plan.from_yaml(path)
