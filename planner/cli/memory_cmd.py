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
    budget = rank_memory(
        known,
        given.spec,
        PrecisionPlan.from_checkpoint(given.spec).with_overrides(formats),
        layout,
        device(known.accelerator(given.accelerator)),
        given.engine,
        engine_version=given.version,
        needed_tokens=length,
        **options,
    )
    document = memory_document(given, layout, budget, length)
    beyond = engine_memory(given.engine, known).beyond_known(given.version)
    document["assumptions"] = [beyond] if beyond else []
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
        "kv_tokens": _finite(max(budget.kv_tokens[0], 0.0)),
        "sequence_tokens": tokens,
        "max_concurrency": _finite(max(per_rank, 0.0) * replicas),
        "fits": bool(budget.fits[0]),
        "shortfall_gib": float(budget.shortfall[0] / GIB),
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _shortfall(document: dict[str, Any]) -> str:
    gib = document["memory_gib"]
    return (
        f"memory: {document['model']} needs {sig3(gib['total'])} GiB on the fullest rank of "
        f"{document['accelerator']} and {sig3(gib['capacity'])} GiB are there; "
        f"{sig3(document['shortfall_gib'])} GiB are missing, weights alone take {sig3(gib['weights'])} GiB"
    )


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
    if not document["fits"]:
        out.print(
            f"KV cache: {document['kv_bytes_per_token'] or 0:,.0f} bytes per token and rank; {gib['kv']:,.3g} GiB are "
            f"asked for, which hold one sequence of {document['sequence_tokens']:,} tokens; "
            f"{sig3(document['kv_tokens'])} tokens have room."
        )
    else:
        out.print(
            f"KV cache: {document['kv_bytes_per_token'] or 0:,.0f} bytes per token and rank, "
            f"{sig3(document['kv_tokens'])} tokens per attention rank; "
            f"{sig3(document['max_concurrency'])} sequences of {document['sequence_tokens']:,} tokens in the worker."
        )
    for text in document["assumptions"]:
        out.print(f"{text}.", markup=False, soft_wrap=True)
