"""``planner replay``: step-by-step continuous batching of a trace on a plan's candidate, beside the closed forms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption, OutOption
from planner.cli.output import console, log, print_json, table
from planner.cli.questions import read_question
from planner.errors import InputError, UnknownNameError
from planner.writing import check_ending, check_target

if TYPE_CHECKING:
    from planner.layout.layouts import Layouts
    from planner.replay.cluster import Progress
    from planner.replay.settings import Failure, Speculation
    from planner.replay.trace import Trace
    from planner.search.ladder import Ladder
    from planner.search.replays import ReplayAnswer

RATES = (("throughput_rps", "requests/s"), ("goodput_rps", "good requests/s"), ("completion_rate", "completed"))
TIMES = (("ttft_ms", "TTFT ms"), ("tbt_ms", "TBT ms"), ("tpot_ms", "TPOT ms"), ("e2e_ms", "whole request ms"))


def replay_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML whose first candidate is replayed.")],
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="Trace of Mooncake, Bailian, Azure, BurstGPT, Vidur or LLMServingSim."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="A fixed trace: short_qa, long_document_qa or long_reasoning.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", min=1, help="Requests to replay; absent means the whole trace.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests per second: gaps of the trace are stretched to it.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same result.")] = 0,
    routing: Annotated[
        str | None,
        typer.Option("--routing", help="round_robin, least_loaded or prefix_aware; absent follows the scenario."),
    ] = None,
    prefix_cache: Annotated[
        bool, typer.Option("--prefix-cache/--no-prefix-cache", help="Whether prefix blocks are kept and reused.")
    ] = True,
    mtp: Annotated[
        str | None,
        typer.Option("--mtp", help="Speculative decoding: chance that each draft token is accepted, such as 0.85,0.6."),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option("--fail", help="AT_S:WORKER:RECOVERY_S, a worker that dies, such as 60:0:120. May be repeated."),
    ] = None,
    most_waiting: Annotated[
        int | None, typer.Option("--most-waiting", min=0, help="Requests a worker may queue; more are turned away.")
    ] = None,
    ladder: Annotated[
        bool,
        typer.Option(
            "--ladder",
            help="One replica at fixed concurrency, then one technique added at a time; runs long_document_qa on the "
            "layout that is planned for it unless --trace or --profile names another load.",
        ),
    ] = False,
    tp: Annotated[int | None, typer.Option("--tp", min=1, help="Replay this layout instead of the best.")] = None,
    pp: Annotated[int, typer.Option("--pp", min=1)] = 1,
    attention_dp: Annotated[int | None, typer.Option("--attention-dp", min=1)] = None,
    moe_tp: Annotated[int | None, typer.Option("--moe-tp", min=1)] = None,
    ep: Annotated[int | None, typer.Option("--ep", min=1)] = None,
    redundant_experts: Annotated[int, typer.Option("--redundant-experts", min=0)] = 0,
    node: Annotated[str | None, typer.Option("--node", help="Node type of the layout.")] = None,
    concurrency: Annotated[
        float | None, typer.Option("--concurrency", min=1, help="Most requests in flight in one worker of the layout.")
    ] = None,
    write_trace: OutOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Replay a workload or trace step by step on the plan's best candidate (or a layout), beside the closed forms.

    --out writes the replayed trace as JSONL in the keys of the Mooncake traces.
    """
    from planner.replay.settings import ROUTINGS
    from planner.search.replaying import Options
    from planner.search.replays import replay_scenario

    chosen = next((r for r in ROUTINGS if r == routing), None)
    if routing is not None and chosen is None:
        raise UnknownNameError("--routing", routing, ROUTINGS)
    asked = read_question(scenario, catalog)
    question, known = asked.scenario, asked.catalog
    given = _trace(trace, profile, requests, rate, seed)
    layout = _layout(tp, pp, attention_dp, moe_tp, ep, redundant_experts)
    candidate = asked.plan.best if asked.plan is not None and layout is None and given is None else None
    if write_trace is not None:
        check_ending(write_trace, (".jsonl",), needed=False)
        check_target(write_trace)
    if ladder:
        from planner.search.ladder import climb

        _only_for_ladder(
            {
                "--tp": tp,
                "--attention-dp": attention_dp,
                "--ep": ep,
                "--node": node,
                "--concurrency": concurrency,
                "--routing": routing,
                "--mtp": mtp,
                "--fail": fail,
                "--most-waiting": most_waiting,
                "--out": write_trace,
            }
        )

        with _progress() as progress:
            found = climb(question, given, requests=requests, seed=seed, catalog=known, progress=progress)
        print_json(found.document()) if as_json else render_ladder(found)
        return 0
    options = Options(
        routing=chosen,
        prefix_cache=prefix_cache,
        speculation=_speculation(mtp),
        failures=tuple(_failure(text) for text in fail or ()),
        most_waiting=most_waiting,
    )
    try:
        with _progress() as progress:
            answer = replay_scenario(
                question,
                trace=given,
                requests=requests,
                seed=seed,
                layout=layout,
                node=node,
                concurrency=concurrency,
                candidate=candidate,
                options=options,
                catalog=known,
                progress=progress,
            )
    except InputError as error:
        if error.field.startswith("failures") and fail:
            raise InputError("--fail", " ".join(fail), error.allowed) from None
        if error.field == "speculation":
            raise InputError("--mtp", mtp, error.allowed) from None
        raise
    if write_trace is not None:
        answer.trace.write_jsonl(write_trace)
        log(f"trace written to {write_trace}")
    print_json(answer.document()) if as_json else render_replay(answer)
    warning = too_short(answer)
    if warning is not None:
        log(warning)
    return 0


def _only_for_ladder(others: dict[str, Any]) -> None:
    """Refuses options that the ladder would not follow: its rungs set them."""
    for name, value in others.items():
        if value:
            raise InputError(name, str(value), "absent with --ladder, which plans its worker and sets each rung itself")


def _trace(path: Path | None, profile: str | None, requests: int | None, rate: float | None, seed: int) -> Trace | None:
    from planner.replay.formats import load_trace
    from planner.replay.generate import fixed_trace

    if path is not None and profile is not None:
        raise InputError("--profile", profile, "either --trace or --profile")
    if path is not None:
        found = load_trace(path, requests)
    elif profile is not None:
        found = fixed_trace(profile, requests or PROFILE_REQUESTS, seed)
    elif rate is not None:
        raise InputError("--rate", rate, "only with --trace or --profile; the scenario states its own")
    else:
        return None
    return found if rate is None else found.at_rate(rate)


def _speculation(text: str | None) -> Speculation:
    from planner.replay.settings import Speculation

    if text is None:
        return Speculation()
    try:
        return Speculation(tuple(float(v) for v in text.split(",")))
    except (ValueError, InputError):
        allowed = "probabilities from 0 to 1 with commas between them, such as 0.85,0.6"
        raise InputError("--mtp", text, allowed) from None


def _failure(text: str) -> Failure:
    from planner.replay.settings import Failure

    try:
        at, worker, recovery = text.split(":")
        found = Failure(float(at), int(worker), float(recovery))
    except (ValueError, InputError):
        allowed = "AT_S:WORKER:RECOVERY_S, times of at least 0 seconds and a worker from 0, such as 60:0:120"
        raise InputError("--fail", text, allowed) from None
    if found.worker < 0:
        raise InputError("--fail", text, "a worker from 0, such as 60:0:120")
    return found


PROFILE_REQUESTS = 10_000
"""Requests of a fixed trace where the user names no number."""


def _layout(
    tp: int | None, pp: int, attention_dp: int | None, moe_tp: int | None, ep: int | None, redundant: int
) -> Layouts | None:
    from planner.layout.layouts import Layouts

    if tp is None and attention_dp is None and ep is None:
        return None
    return Layouts.of(tp or 1, pp, attention_dp or 1, moe_tp, ep or 1, redundant)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on standard error while someone watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


LEAST_RESIDENCES = 4.0
"""Mean times of a request that a replay lasts at least before its figures say anything about a steady state."""


def too_short(answer: ReplayAnswer) -> str | None:
    """A warning where the replay ends before the deployment has filled; None where it is long enough."""
    from planner.search.headline import sig3
    from planner.search.replaying import residence_s

    trace, one = answer.trace, residence_s(answer.candidate)
    if answer.scenario.workload.arrival.rate() is None:
        lasts = len(trace) / max(answer.candidate.concurrency * answer.share[0] / answer.share[1], 1.0) * one
    else:
        lasts = len(trace) / trace.rate_rps
    if not lasts < LEAST_RESIDENCES * one:
        return None
    text = (
        f"Warning: too short to compare. Requests arrive for {sig3(lasts)} s, one takes {sig3(one)} s on average: the "
        "deployment hardly fills, so replayed figures are not those of a steady load."
    )
    if not lasts > 0:  # one request, or all at once: how many fill it is not known from them
        return text
    enough = ceil(len(trace) * LEAST_RESIDENCES * one / lasts)
    return f"{text} Take --requests {enough:,} or more."


def render_replay(answer: ReplayAnswer) -> None:
    """Two columns: replayed and predicted."""
    from planner.search.headline import sig3

    document, out = answer.document(), console()
    trace, predicted = document["trace"], document["predicted"]
    out.print(answer.deployment, style="bold", markup=False, soft_wrap=True)
    kept, of = answer.share
    part = "" if kept == of else f" · {kept} of {of} workers under their part of the load"
    out.print(
        f"{trace['requests']:,} requests of {trace['name']} at {sig3(trace['rate_rps'])} requests/s, "
        f"gap cv {sig3(trace['interarrival_cv'])}, seed {answer.seed}{part}",
        markup=False,
        soft_wrap=True,
    )
    rows = []
    for key, title in TIMES:
        for p in ("mean", "p50", "p95", "p99"):
            rows.append((f"{title} {p}", sig3(document[key][p]), sig3((predicted.get(key) or {}).get(p))))
    for c in document["priorities"]:
        for p in ("mean", "p50", "p95", "p99"):
            mine = sig3(c["ttft_ms"][p]), sig3((c["predicted_ttft_ms"] or {}).get(p))
            rows.append((f"TTFT ms {p}, class {c['name']}", *mine))
    rows += [(title, sig3(document[key]), sig3(predicted.get(key))) for key, title in RATES]
    out.print(table(None, ("", "replayed", "predicted"), rows))
    o = document["occupancy"]
    out.print(
        f"Busy {o['busy_share']:.0%}, with prompts {o['prompt_share']:.0%} of the time; "
        f"{sig3(o['mean_decoding_per_worker'])} sequences decode in a worker; "
        f"{o['cached_share_of_prompts']:.0%} of prompt tokens from the cache; {o['restarts']:,} restarts",
        markup=False,
        soft_wrap=True,
    )
    for note in answer.notes():
        out.print(f"  ! {note}", markup=False, soft_wrap=True)


BAR_WIDTH = 12
"""Characters of the longest bar in the ladder's chart of output tokens per second and GPU."""


def render_ladder(found: Ladder) -> None:
    """One row a rung."""
    from planner.search.headline import sig3

    rows: list[tuple[str, ...]] = []
    most = max(rung.tokens_per_s_per_gpu for rung in found.rungs)
    for rung in found.rungs:
        r: dict[str, Any] = rung.summary
        rows.append(
            (
                rung.name,
                rung.deployment,
                sig3(rung.concurrency),
                sig3(r["ttft_ms"]["p50"]),
                sig3(r["ttft_ms"]["p99"]),
                sig3(r["tpot_ms"]["p50"]),
                sig3(r["tbt_ms"]["p99"]),
                sig3(r["throughput_rps"]),
                sig3(r["goodput_rps"]),
                sig3(rung.tokens_per_s_per_gpu),
                "█" * round(BAR_WIDTH * rung.tokens_per_s_per_gpu / most),
            )
        )
    times = ("TTFT p50", "TTFT p99", "TPOT p50", "TBT p99")
    columns = ("added", "deployment", "in flight", *times, "requests/s", "good", "tok/s/GPU", "")
    console().print(table(f"{found.trace}, {found.requests:,} requests, times in ms", columns, rows, text=2))
    for note in found.notes:
        console().print(f"  · {note}", markup=False, soft_wrap=True)
