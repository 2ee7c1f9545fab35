"""``planner plan``: from a scenario, or from a plan's own scenario, to a ranked and explained plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.carried import catalog_of, names
from planner.cli.options import EXIT_INFEASIBLE, CatalogOption, JsonOption
from planner.cli.output import log, print_json, write_text
from planner.errors import InputError
from planner.writing import check_target

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
    from planner.scenario.load import check_names, load_scenario
    from planner.search.headline import headline

    given = read_plan(scenario) if _schema_of(scenario).startswith("planner.plan/") else None
    question = load_scenario(scenario) if given is None else given.scenario
    known = open_catalog(catalog) if given is None else catalog_of(given, catalog)
    check_names(question, known)
    if out is not None:
        check_target(out)
    from planner.search.planning import plan

    answer = plan(question, catalog=known)
    if given is not None and given.catalogue:
        answer = answer.model_copy(update={"catalogue": given.catalogue})
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


def is_question(path: Path) -> bool:
    """Whether ``path`` is a scenario or plan file, told by its ``schema`` key."""
    return path.is_file() and _schema_of(path).startswith(("planner.scenario/", "planner.plan/"))


def read_question(path: Path) -> Scenario:
    """The scenario in a scenario file or inside a plan file, told apart by their ``schema`` key.

    Hardware that a plan file carries is not taken from there; a line on standard error says so.
    """
    from planner.scenario.load import load_scenario

    if not _schema_of(path).startswith("planner.plan/"):
        return load_scenario(path)
    plan = read_plan(path)
    if plan.catalogue:
        log(
            f"{path.name} carries hardware of its own ({names(plan)}), which plan, export and sheet take from there; "
            "this command needs it in the folder of --catalog"
        )
    return plan.scenario


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file; a scenario in its place gets a sentence of its own."""
    from planner.search.plan_schema import Plan

    if _schema_of(path).startswith("planner.scenario/"):
        raise InputError(path.name, "a scenario", "a plan file, as written by planner plan SCENARIO.yaml --out")
    return Plan.from_yaml(path)


def _schema_of(path: Path) -> str:
    """Value of the top-level ``schema`` key among the first lines of a file; empty where there is none."""
    from planner.scenario.load import read_text
    from planner.scenario.safe_yaml import MAX_PLAN_BYTES

    for line in read_text(path, MAX_PLAN_BYTES).splitlines()[:200]:
        key, _, value = line.partition(":")
        if key.strip("\"'") == "schema":
            return value.split("#")[0].strip().strip("\"'")
    return ""
