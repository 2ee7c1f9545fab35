"""``planner memory``: the budget of the fullest rank, term by term, and what its KV cache holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from planner.cli.questions import is_question, read_question
from planner.cli.render_plan import needed_gib
from planner.errors import InputError
from planner.search.headline import sig3
from planner.units import GIB

if TYPE_CHECKING:
    from planner.catalog import Catalog, ModelSpec
    from planner.layout.layouts import Layouts
    from planner.memory.budget import MemoryBudget


@dataclass(frozen=True)
class _Given:
    """What the options and, behind them, the scenario say."""

    spec: ModelSpec
    precision: dict[str, str]
    accelerator: str
    engine: str
    version: str | None
    options: dict[str, Any]
    longest: int
    """Tokens of the longest sequence that the model, and the engine as set, take."""


SHARES = tuple(percent / 100.0 for percent in range(1, 101))
"""Memory shares among which one that fits is looked for."""
SEQUENCE_TOKENS = 8192
"""Length of a sequence where the user names none."""


def _length(tokens: int | None, given: _Given) -> int:
    if tokens is None:
        return min(SEQUENCE_TOKENS, given.longest)
    if tokens > given.longest:
        raise InputError("--tokens", tokens, f"at most {given.longest:,}, the longest sequence of {given.spec.id}")
    return tokens


def memory_command(
    model: Annotated[str, typer.Argument(help="Model id, Hugging Face id, config.json, model YAML or scenario YAML.")],
    accelerator: Annotated[str | None, typer.Option("--accelerator", help="Accelerator id.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="vllm, sglang or trtllm.")] = None,
    engine_version: Annotated[str | None, typer.Option("--engine-version", help="Engine version.")] = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    attention_dp: DpOption = 1,
    moe_tp: MoeTpOption = None,
    ep: EpOption = 1,
    redundant_experts: RedundantOption = 0,
    precision: Annotated[str | None, typer.Option("--precision", help="Format of all weights.")] = None,
    kv: Annotated[str | None, typer.Option("--kv", help="Format of the KV cache.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="Sequences per step and attention rank.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens per step.")] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="The engine's memory share.")] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Length of a sequence to count how many fit; absent means 8192, or the longest."),
    ] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Memory of the fullest rank of one worker, term by term, and how many sequences its KV cache holds."""
    from planner.hardware.device import device
    from planner.layout.layouts import Layouts
    from planner.memory.coefficients import engine_memory
    from planner.model.precision import PrecisionPlan
    from planner.search.rank_memory import rank_memory

    known, given = _given(model, accelerator, engine, engine_version, catalog)
    formats = given.precision | {k: v for k, v in (("default", precision), ("kv", kv)) if v is not None}
    options = given.options | {
        k: v
        for k, v in (
            ("max_num_seqs", max_num_seqs),
            ("max_num_batched_tokens", max_num_batched_tokens),
            ("gpu_memory_utilization", gpu_memory_utilization),
        )
        if v is not None
    }
    layout = Layouts.of(tp, pp, attention_dp, moe_tp, ep, redundant_experts)
    length = _length(tokens, given)
    precisions = PrecisionPlan.from_checkpoint(given.spec).with_overrides(formats)
    chip = device(known.accelerator(given.accelerator))

    def budget_with(**changed: Any) -> MemoryBudget:
        return rank_memory(
            *(known, given.spec, precisions, layout, chip, given.engine),
            engine_version=given.version,
            needed_tokens=length,
            **(options | changed),
        )

    budget = budget_with()
    document = memory_document(given, layout, budget, length)
    memory = engine_memory(given.engine, known)
    beyond = memory.beyond_known(given.version)
    document["assumptions"] = [beyond] if beyond else []
    document["share_option"] = memory.share_option
    document["share_that_fits"] = None
    if not document["fits"]:
        document["share_that_fits"] = nearest_share(budget_with(gpu_memory_utilization=SHARES), budget)
    if as_json:
        print_json(document)
    else:
        _render(document)
    if not document["fits"]:
        log(f"planner: {_shortfall(document)}")
        return EXIT_INFEASIBLE
    return 0


def _given(
    model: str, accelerator: str | None, engine: str | None, version: str | None, folder: Path | None
) -> tuple[Catalog, _Given]:
    """The catalogue, with what a scenario or plan file carries, and what is asked of it."""
    from planner.catalog import catalog as open_catalog
    from planner.catalog import load_model
    from planner.scenario.load import resolve_model

    if not is_question(Path(model)):
        if accelerator is None:
            raise InputError(
                "--accelerator", None, "an accelerator id is needed; planner catalog accelerators lists them"
            )
        known = open_catalog(folder)
        spec = load_model(model, known.user_dir)
        return known, _Given(spec, {}, accelerator, engine or "vllm", version, {}, spec.max_context_tokens)
    asked = read_question(Path(model), folder)
    question, known = asked.scenario, asked.catalog
    hardware = question.hardware
    nodes = [*hardware.candidates, *(hardware.pools.decode if hardware.pools is not None else ())]
    chosen = question.engine.options
    options = {
        "max_num_seqs": chosen.max_num_seqs,
        "max_num_batched_tokens": chosen.max_num_batched_tokens,
        "gpu_memory_utilization": chosen.gpu_memory_utilization,
        "cuda_graphs": chosen.cuda_graphs,
    }
    same_engine = engine is None or engine == question.engine.name
    spec = resolve_model(question, known)
    return known, _Given(
        spec,
        question.precision.given(),
        accelerator or known.node(nodes[0].node).accelerator,
        engine or question.engine.name,
        version or (question.engine.version if same_engine else None),
        {k: v for k, v in options.items() if v is not None and same_engine},
        chosen.max_model_len or spec.max_context_tokens,
    )


def memory_document(given: _Given, layout: Layouts, budget: MemoryBudget, tokens: int) -> dict[str, Any]:
    """What ``memory --json`` prints."""
    replicas = int(layout.attention_dp[0])
    per_rank = float(budget.sequences(tokens)[0])
    return {
        "model": given.spec.id,
        "accelerator": given.accelerator,
        "engine": given.engine,
        "engine_version": given.version,
        "layout": layout.row(0),
        "gpus": int(layout.gpus[0]),
        "memory_gib": needed_gib(budget.gib(0)),
        "tightest_stage": budget.stage_name(0),
        "memory_share": float(budget.share[0]),
        "kv_bytes_per_token": _finite(budget.kv_bytes_per_token[0]),
        "kv_window_tokens": budget.window_tokens,
        "kv_hybrid": budget.hybrid,
        "kv_bytes_per_sequence": _finite(budget.sequence_bytes(tokens)[0]),
        "kv_tokens": _finite(max(budget.kv_tokens[0], 0.0)),
        "sequence_tokens": tokens,
        "max_concurrency": _finite(max(per_rank, 0.0) * replicas),
        "kv_bytes_asked": float(budget.needed_kv[0]),
        "cache_fits": bool(budget.kv[0] >= budget.needed_kv[0]),
        "fits": bool(budget.fits[0]),
        "shortfall_gib": float(budget.shortfall[0] / GIB),
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def nearest_share(tried: MemoryBudget, budget: MemoryBudget) -> float | None:
    """The memory share nearest to that of ``budget`` with which the same fits; None where none does."""
    fitting = tried.share[tried.fits]
    return float(fitting[abs(fitting - budget.share[0]).argmin()]) if fitting.size else None


def _shortfall(document: dict[str, Any]) -> str:
    """What does not fit and why: the share or the accelerator; and the nearest share that would do."""
    gib, missing, share = document["memory_gib"], sig3(document["shortfall_gib"]), f"{document['memory_share']:g}"
    rank, fitting = f"the fullest rank of {document['accelerator']}", document["share_that_fits"]
    if document["cache_fits"]:
        said = (
            f"memory: a share of {share} gives the KV cache {sig3(gib['kv'])} GiB on {rank}, and {missing} GiB are "
            f"then missing for the rest (weights {sig3(gib['weights'])} GiB, workspace {sig3(gib['workspace'])} GiB)"
        )
    elif fitting is not None:
        given = sig3(gib["kv"] - document["shortfall_gib"])
        said = (
            f"memory: a share of {share} gives the KV cache {given} GiB on {rank}, and {missing} GiB are missing "
            f"for one sequence of {document['sequence_tokens']:,} tokens"
        )
    else:
        said = (
            f"memory: {document['model']} needs {sig3(gib['total'])} GiB on {rank} and {sig3(gib['capacity'])} GiB are "
            f"there; {missing} GiB are missing, weights alone take {sig3(gib['weights'])} GiB"
        )
    if fitting is None:
        return said
    own = "" if document["share_option"] == "gpu_memory_utilization" else f" ({document['share_option']})"
    return f"{said}; --gpu-memory-utilization {fitting:.2f}{own} in place of {share} fits"


def _render(document: dict[str, Any]) -> None:
    from planner.cli.render_plan import memory_table
    from planner.search.plan_schema import Layout, MemoryGib

    out = console()
    layout, gib = Layout(**document["layout"]).describe(), document["memory_gib"]
    out.print(
        f"{document['model']} as {layout} on {document['gpus']} × {document['accelerator']}, {document['engine']}"
        f" {document['engine_version'] or '(newest known)'}: {'fits' if document['fits'] else 'does not fit'}",
        style="bold",
        markup=False,
        soft_wrap=True,
    )
    out.print(memory_table("Memory of the fullest rank, GiB", MemoryGib(**gib)))
    out.print(cache_sentence(document), soft_wrap=True)
    for text in document["assumptions"]:
        out.print(f"{text}.", markup=False, soft_wrap=True)


def cache_sentence(document: dict[str, Any]) -> str:
    """What the cache holds, by the length asked for; tokens of a rank only where every token takes the same."""
    length, window = f"{document['sequence_tokens']:,} tokens", document["kv_window_tokens"]
    room, asked = sig3(document["kv_tokens"]), sig3(document["kv_bytes_asked"] / GIB)
    said = f"KV cache: {document['kv_bytes_per_token'] or 0:,.0f} bytes per token and rank"
    if window is not None:
        said += f" beyond windows of {window:,} tokens"
    if not document["cache_fits"]:
        return f"{said}; {asked} GiB are asked for, which hold one sequence of {length}; {room} tokens have room."
    if not document["fits"]:
        given = sig3(document["memory_gib"]["kv"])
        return f"{said}; the share gives it {given} GiB; one sequence of {length} would take {asked} GiB."
    held = f"{sig3(document['max_concurrency'])} sequences of {length} in the worker"
    if not document["kv_hybrid"]:
        return f"{said}, {room} tokens per attention rank; {held}."
    each = sig3(document["kv_bytes_per_sequence"] / GIB)
    prints = ", which is how vLLM counts" if document["engine"] == "vllm" else ""
    return (
        f"{said}; {held}, {each} GiB each on a rank. If every layer kept every token{prints}, {room} tokens would have "
        "room."
    )
