"""``planner plan``: from a scenario, or from a plan's own scenario, to a ranked and explained plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import EXIT_INFEASIBLE, CatalogOption, JsonOption
from planner.cli.output import log, print_json, write_text
from planner.cli.questions import read_question
from planner.writing import check_ending, check_target


def plan_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML whose scenario is planned again.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan as YAML that loads back.")] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="How many candidates to show.")] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rank every legal layout that serves the scenario within its SLO, and say why the others fail."""
    from planner.search.headline import headline

    question = read_question(scenario, catalog)
    if out is not None:
        check_ending(out, (".yaml", ".yml"), needed=False)
        check_target(out)
    from planner.search.planning import plan

    answer = plan(question.scenario, catalog=question.catalog)
    if question.carried:
        answer = answer.model_copy(update={"catalogue": question.carried})
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
