"""``planner size``: the recommended fleet against its load, over a day and through failures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, print_json, table
from planner.cli.questions import read_question
from planner.errors import InfeasibleError, InputError
from planner.search.headline import sig3
from planner.units import uptime

if TYPE_CHECKING:
    from planner.scenario.schema import Scenario
    from planner.search.sizing_schema import DayPlan, FailurePlan, RecoveryPlan, Sizing

KINDS = {"gpu": "GPU", "node": "node", "rack": "rack"}
HOURLY = "24 numbers of at least 0, one of them above 0, separated by commas"
RECOVERY_PARTS = (
    ("detection_s", "detection"),
    ("restart_s", "restart on other hardware"),
    ("weights_s", "weights"),
    ("warm_up_s", "warm-up"),
    ("graphs_s", "CUDA graphs"),
    ("reprefill_s", "lost KV computed again"),
    ("total_s", "in all"),
)


def size_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML for its scenario.")],
    peak_to_mean: Annotated[
        float | None,
        typer.Option("--peak-to-mean", help="Busiest hour over the day's mean; the scenario's rate is the busiest."),
    ] = None,
    hourly: Annotated[
        str | None,
        typer.Option("--hourly", help="24 loads from midnight, separated by commas; only the proportions count."),
    ] = None,
    failures: Annotated[
        int | None, typer.Option("--failures", min=1, help="Failures at once that headroom is for (k of N + k).")
    ] = None,
    candidate: Annotated[int, typer.Option("--candidate", min=1, help="Rank of the candidate; 1 is the best.")] = 1,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Size the recommended fleet or another candidate's: replicas x layout, a day's range, N + k, recovery time."""
    from planner.search.headline import headline, in_one_sentence
    from planner.search.planning import planned

    given = read_question(scenario, catalog)
    question = asked(given.scenario, peak_to_mean, hourly, failures)
    made = planned(question, catalog=given.catalog)
    found = made.plan.candidates
    if not found:
        raise InfeasibleError(headline(made.plan))
    if candidate > len(found):
        raise InputError("--candidate", candidate, f"a rank from 1 to {len(found)}")
    answer, sizing = in_one_sentence(found[candidate - 1], made.plan.scenario), made.sizing(candidate)
    if as_json:
        print_json({"scenario": question.name, "answer": answer, **sizing.model_dump(mode="json")})
    else:
        render_sizing(answer, sizing, question.reliability.spare_nodes)
    return 0


def asked(scenario: Scenario, peak_to_mean: float | None, hourly: str | None, failures: int | None) -> Scenario:
    """The scenario with the options in place of its own daily profile and number of failures."""
    data = scenario.to_dict()
    if peak_to_mean is not None and hourly is not None:
        raise InputError("--hourly", hourly, "either --hourly or --peak-to-mean")
    if peak_to_mean is not None:
        data["workload"]["daily_profile"] = {"peak_to_mean": peak_to_mean}
    if hourly is not None:
        data["workload"]["daily_profile"] = {"hourly": _numbers(hourly)}
    if failures is not None:
        data["reliability"] = {**data.get("reliability", {}), "failures": failures}
    from planner.scenario.schema import Scenario as Schema

    try:
        return Schema.from_dict(data)
    except InputError as error:
        if "daily_profile" in error.field and hourly is not None:
            raise InputError("--hourly", hourly, HOURLY) from None
        if "daily_profile" in error.field and peak_to_mean is not None:
            raise InputError("--peak-to-mean", peak_to_mean, error.allowed) from None
        if error.field.endswith("reliability.failures") and failures is not None:
            raise InputError("--failures", failures, error.allowed) from None
        raise


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError("--hourly", text, HOURLY) from None


def render_sizing(answer: str, sizing: Sizing, spare_nodes: int) -> None:
    """Prints a sizing for people."""
    out = console()
    out.print(answer, style="bold", markup=False, soft_wrap=True)
    out.print(sizing.fleet, markup=False, soft_wrap=True)
    if sizing.carried_rps is not None:
        out.print(f"It carries up to {sig3(sizing.carried_rps)} requests/s within every limit.")
    if sizing.day is not None:
        out.print(_day_table(sizing.day))
        out.print(_day_sentence(sizing.day, spare_nodes), soft_wrap=True)
    out.print(_failure_table(sizing.failures))
    out.print(_recovery_table(sizing.recovery))
    with_spares = "spare nodes of the scenario included" if spare_nodes else "without spare nodes"
    out.print(f"Enough workers are up {uptime(sizing.slo_availability)} of the time, {with_spares}.")


def _day_table(day: DayPlan) -> Any:
    counts = day.counts()
    hours = zip(day.hourly_rps, *counts.values(), strict=True)
    rows = [(f"{h:02d}:00", sig3(rate), *(f"{n:,}" for n in numbers)) for h, (rate, *numbers) in enumerate(hours)]
    return table("Over a day", ("hour", "requests/s", *counts), rows)


def _day_sentence(day: DayPlan, spare_nodes: int) -> str:
    text = (
        f"Peak {day.peak_gpus:,} GPUs, {sig3(day.average_gpus)} on average when autoscaled between "
        f"{day.lowest_gpus:,} and {day.peak_gpus:,} ({day.saved_share:.0%} fewer GPU-hours); "
        f"a worker takes {sig3(day.start_s)} s to start."
    )
    if (
        day.saved_share > 0
        and day.usd_per_day_fixed is not None
        and 0 < day.usd_per_day_fixed == day.usd_per_day_autoscaled
    ):
        text += " Whole nodes are billed, and no hour needs fewer of them: autoscaling saves no rent."
    if day.usd_per_day_fixed is None or day.usd_per_day_autoscaled is None:
        return text
    return (
        f"{text} Rent ${day.usd_per_day_fixed:,.0f} a day fixed, ${day.usd_per_day_autoscaled:,.0f} autoscaled: "
        f"${sig3(day.usd_per_mtok_output_fixed)} and ${sig3(day.usd_per_mtok_output_autoscaled)} per million output "
        f"tokens{', spare nodes included' if spare_nodes else ''}."
    )


def _failure_table(failures: tuple[FailurePlan, ...]) -> Any:
    rows = []
    for f in failures:
        held = {True: "met", False: "broken", None: "–"}[f.met_without_spares]
        rows.append(
            (
                f"{f.count} {KINDS[f.failure]}{'s' if f.count != 1 else ''}",
                held,
                _workers(f.lost_replicas, f.lost_prefill_workers, ","),
                sig3(f.ttft_p99_ms),
                sig3(f.tbt_p99_ms),
                _workers(f.spare_replicas, f.spare_prefill_workers, " +"),
                f"{f.spare_nodes:,}",
                "yes" if f.covered else "no",
                sig3(f.per_year),
            )
        )
    columns = (
        *("loss of", "SLO without spares", "most workers lost", "TTFT P99 ms", "TBT P99 ms"),
        *("spares needed", "nodes to add", "room in the plan", "single failures a year"),
    )
    return table("Headroom for failures", columns, rows, text=2)


def _workers(decode: int, prefill: int | None, joint: str) -> str:
    """Workers in words, of both pools where there are two."""
    return f"{decode:,}" if prefill is None else f"{prefill:,} prefill{joint} {decode:,} decode"


def _recovery_table(recovery: RecoveryPlan) -> Any:
    rows = [(name, sig3(getattr(recovery, key))) for key, name in RECOVERY_PARTS]
    title = (
        f"Recovery of one worker ({sig3(recovery.weight_gib_per_node)} GiB a node at "
        f"{sig3(recovery.weight_read_gb_s)} GB/s)"
    )
    return table(title, ("", "seconds"), rows)
