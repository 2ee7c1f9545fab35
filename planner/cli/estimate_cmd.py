"""``planner estimate``: one layout at one operating point, feasible or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import (
    EXIT_INFEASIBLE,
    CatalogOption,
    DpOption,
    EpOption,
    JsonOption,
    MoeTpOption,
    PpOption,
    RedundantOption,
    TpOption,
)
from planner.cli.output import console, log, print_json
from planner.cli.questions import read_question

if TYPE_CHECKING:
    from planner.search.plan_schema import Estimate


def estimate_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML for its scenario.")],
    tp: TpOption = 1,
    pp: PpOption = 1,
    attention_dp: DpOption = 1,
    moe_tp: MoeTpOption = None,
    ep: EpOption = 1,
    redundant_experts: RedundantOption = 0,
    node: Annotated[str | None, typer.Option("--node", help="Node type; absent means the scenario's first.")] = None,
    concurrency: Annotated[
        float | None,
        typer.Option(
            "--concurrency",
            min=1,
            help="Requests in flight in one worker; at an offered rate the most on average. Absent: as by load.",
        ),
    ] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Estimate one layout of a worker under the scenario's traffic, and say whether it meets the SLO."""
    from planner.layout.layouts import Layouts

    question = read_question(scenario, catalog)
    layout = Layouts.of(tp, pp, attention_dp, moe_tp, ep, redundant_experts)
    from planner.search.planning import estimate

    answer = estimate(question.scenario, layout, node=node, concurrency=concurrency, catalog=question.catalog)
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        render_estimate(answer)
    if not answer.feasible:
        log(f"planner: {why_not(answer)}")
        return EXIT_INFEASIBLE
    return 0


def why_not(answer: Estimate) -> str:
    """The reasons in one sentence."""
    reasons = "; ".join(r.example for r in answer.rejected) or "a limit is missed"
    return f"not feasible: {reasons}"


def render_estimate(answer: Estimate) -> None:
    """The same tables as a plan's best candidate."""
    from planner.cli.render_plan import render_breakdown, render_memory, slo_table
    from planner.search.assumptions import ASKED
    from planner.search.headline import deployment, sig3, with_interval

    out, c = console(), answer.candidate
    said = [text for text in answer.assumptions if text.startswith(ASKED)]
    out.print(deployment(c, paid=True), style="bold", markup=False, soft_wrap=True)
    for text in said:
        out.print(text, markup=False, soft_wrap=True)
    if not answer.feasible:
        out.print(f"N{why_not(answer)[1:]}.", style="bold", markup=False, soft_wrap=True)
    # What does not fit runs at no speed; a closed loop would show the times of one that had the memory.
    if (c.ttft_ms.mean is None and not c.goodput_rps) or c.memory_gib.total > c.memory_gib.capacity:
        render_memory(out, c)
        return
    out.print(
        f"TTFT {with_interval(c.ttft_ms.mean, c.interval.get('ttft_ms'))} ms · "
        f"TPOT {with_interval(c.tpot_ms.mean, c.interval.get('tpot_ms'))} ms · "
        f"{sig3(c.output_tokens_per_s_per_gpu)} output tokens/s per GPU · "
        f"{sig3(c.concurrency)} requests in the workers",
        markup=False,
        soft_wrap=True,
    )
    out.print(f"Bound by: {c.binding}", markup=False, soft_wrap=True)
    if c.slo:
        out.print(slo_table(c.slo))
    render_breakdown(out, c)
    render_memory(out, c)
    for mark in c.evidence.marks:
        out.print(f"  ! {mark.subject}: {mark.text}", markup=False, soft_wrap=True)
    for text in (t for t in answer.assumptions if t not in said):
        out.print(f"  · {text}", markup=False, soft_wrap=True)
