"""One number a cell: plain arguments in, plain numbers out, errors that say what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from planner.errors import InfeasibleError, InputError
from planner.units import GIB

if TYPE_CHECKING:
    from planner.catalog.model_spec import ModelSpec
    from planner.layout.layouts import Layouts
    from planner.model.precision import PrecisionPlan
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Candidate


def kv_bytes_per_token(model: str, kv: str = "bf16", tp: int = 1, context_tokens: int | None = None) -> float:
    """KV cache in bytes of one more token, over all layers, on one of ``tp`` ranks (``tp = 1``: the whole model's).

    Of a model with windowed layers that is so while the windows fill. ``context_tokens`` names the length of a sequence
    that the token is added to: windows that are full then add nothing. Times a length it is no sequence's size:
    :func:`kv_bytes_per_sequence` is.

    >>> kv_bytes_per_token("deepseek-v3")
    70272.0
    >>> kv_bytes_per_token("gemma-3-27b"), kv_bytes_per_token("gemma-3-27b", context_tokens=100_000)
    (507904.0, 81920.0)
    """
    from planner.model.kv import kv_bytes_per_token as per_token

    held = 0 if context_tokens is None else _whole("context_tokens", context_tokens)
    return float(per_token(_model(model), kv, _whole("tp", tp), held))


def kv_bytes_per_sequence(model: str, tokens: int, kv: str = "bf16", tp: int = 1, engine: str = "vllm") -> float:
    """KV cache in bytes of a sequence of ``tokens``, over all layers, on one of ``tp`` ranks: the engine's whole pages.

    This is what ``planner memory`` and a plan count: windows keep no more than they see, recurrent layers a state, and
    an engine may pad groups of layers to one size of page.

    >>> kv_bytes_per_sequence("deepseek-v3", 8192) / 8192
    70272.0
    """
    import numpy as np

    from planner.memory.coefficients import engine_memory
    from planner.memory.pages import page_groups, sequence_bytes
    from planner.memory.weights import stage_table

    spec, memory = _model(model), engine_memory(engine)
    precision = _precision(spec, None, kv)
    table = stage_table(spec, precision, _layout(tp, 1, 1, 1, None), memory)
    groups = page_groups(spec, precision.kv, memory, tp=table.shards.tp, group_layers=table.group_layers)
    return float(np.max(sequence_bytes(groups, _whole("tokens", tokens))))


def weights_gib(
    model: str,
    precision: str | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    ep: int = 1,
    moe_tp: int | None = None,
    engine: str = "vllm",
) -> float:
    """Weights of the fullest rank in GiB. ``precision`` None keeps the checkpoint's formats."""
    from planner.memory.coefficients import engine_memory
    from planner.memory.weights import stage_table

    spec = _model(model)
    layout = _layout(tp, pp, attention_dp, ep, moe_tp)
    table = stage_table(spec, _precision(spec, precision), layout, engine_memory(engine))
    return float(table.weights.max()) / GIB


def max_concurrency(
    model: str,
    accelerator: str,
    input_tokens: int,
    output_tokens: int,
    precision: str | None = None,
    kv: str | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    ep: int = 1,
    moe_tp: int | None = None,
    engine: str = "vllm",
    engine_version: str | None = None,
    gpu_memory_utilization: float | None = None,
) -> int:
    """Requests of ``input_tokens`` + ``output_tokens`` that one worker holds at once, each at its full length."""
    from planner.catalog import catalog
    from planner.hardware.device import device
    from planner.search.rank_memory import rank_memory

    spec = _model(model)
    layout = _layout(tp, pp, attention_dp, ep, moe_tp)
    tokens = _whole("input_tokens", input_tokens) + _whole("output_tokens", output_tokens)
    budget = rank_memory(
        catalog(),
        spec,
        _precision(spec, precision, kv),
        layout,
        device(catalog().accelerator(accelerator)),
        engine,
        engine_version=engine_version,
        gpu_memory_utilization=gpu_memory_utilization,
        needed_tokens=tokens,
    )
    if not budget.fits[0]:
        gib = budget.gib(0)
        raise InfeasibleError(
            f"memory: {gib['total']:.1f} GiB needed on the fullest rank, {gib['capacity']:.1f} GiB there"
            f" (weights {gib['weights']:.1f} GiB)"
        )
    return int(budget.sequences(tokens)[0]) * attention_dp


def tpot_ms(
    model: str,
    node: str,
    concurrency: float,
    input_tokens: int,
    output_tokens: int,
    precision: str | None = None,
    kv: str | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    ep: int = 1,
    moe_tp: int | None = None,
    engine: str = "vllm",
    prefix_hit_rate: float = 0.0,
) -> float:
    """Mean time per output token after the first in ms, with ``concurrency`` requests in flight in one worker."""
    if _whole("output_tokens", output_tokens) < 2:
        raise InputError("output_tokens", output_tokens, "at least 2: one token has no token after the first")
    best = _loop(
        _question(model, node, input_tokens, output_tokens, precision, kv, engine, prefix_hit_rate),
        node,
        concurrency,
        _layout(tp, pp, attention_dp, ep, moe_tp),
    )
    return _number(best.tpot_ms.mean, "tpot_ms")


def ttft_ms(
    model: str,
    node: str,
    concurrency: float,
    input_tokens: int,
    output_tokens: int,
    precision: str | None = None,
    kv: str | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    ep: int = 1,
    moe_tp: int | None = None,
    engine: str = "vllm",
    prefix_hit_rate: float = 0.0,
) -> float:
    """Mean time to first token in ms, with ``concurrency`` requests in flight in one worker."""
    best = _loop(
        _question(model, node, input_tokens, output_tokens, precision, kv, engine, prefix_hit_rate),
        node,
        concurrency,
        _layout(tp, pp, attention_dp, ep, moe_tp),
    )
    return _number(best.ttft_ms.mean, "ttft_ms")


def min_gpus(
    model: str,
    node: str,
    rate_rps: float,
    input_tokens: int,
    output_tokens: int,
    ttft_limit_ms: float | None = None,
    tpot_limit_ms: float | None = None,
    precision: str | None = None,
    kv: str | None = None,
    engine: str = "vllm",
    prefix_hit_rate: float = 0.0,
    serving: str = "agg",
) -> int:
    """Fewest GPUs of ``node`` that serve ``rate_rps`` requests per second within the limits on the means."""
    question = _question(model, node, input_tokens, output_tokens, precision, kv, engine, prefix_hit_rate)
    question |= {"objective": "fewest_gpus", "search": {"serving": [serving]}}
    question["slo"] = _slo(ttft_limit_ms, tpot_limit_ms)
    question["workload"]["arrival"] = {"kind": "poisson", "rate_rps": rate_rps}
    return _best(question).gpus


def usd_per_mtok(
    model: str,
    node: str,
    usd_per_gpu_hour: float,
    rate_rps: float,
    input_tokens: int,
    output_tokens: int,
    ttft_limit_ms: float | None = None,
    tpot_limit_ms: float | None = None,
    precision: str | None = None,
    kv: str | None = None,
    engine: str = "vllm",
    prefix_hit_rate: float = 0.0,
    serving: str = "agg",
) -> float:
    """Lowest cost in USD per million output tokens (all cost on output) at ``rate_rps`` within the mean limits."""
    question = _question(model, node, input_tokens, output_tokens, precision, kv, engine, prefix_hit_rate)
    question |= {"objective": "lowest_cost", "search": {"serving": [serving]}}
    question["slo"] = _slo(ttft_limit_ms, tpot_limit_ms)
    question["economics"] = {"usd_per_gpu_hour": {node: usd_per_gpu_hour}}
    question["workload"]["arrival"] = {"kind": "poisson", "rate_rps": rate_rps}
    return _number(_best(question).usd_per_mtok.output, "usd_per_mtok")


def _model(model: str) -> ModelSpec:
    from planner.catalog import load_model

    return load_model(model)


def _precision(spec: ModelSpec, default: str | None, kv: str | None = None) -> PrecisionPlan:
    from planner.model.precision import PrecisionPlan

    given = {"default": default, "kv": kv}
    return PrecisionPlan.from_checkpoint(spec).with_overrides({k: v for k, v in given.items() if v is not None})


def _layout(tp: int, pp: int, attention_dp: int, ep: int, moe_tp: int | None) -> Layouts:
    from planner.layout.layouts import Layouts

    named = {"tp": tp, "pp": pp, "attention_dp": attention_dp, "ep": ep}
    whole = {name: _whole(name, value) for name, value in named.items()}
    return Layouts.of(**whole, moe_tp=None if moe_tp is None else _whole("moe_tp", moe_tp))


def _whole(name: str, value: Any) -> int:
    """Spreadsheets hand over 8.0 for 8; anything else that is not a whole number of at least 1 is refused."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (isinstance(value, Integral) or math.isfinite(value)) or value != int(value) or value < 1:
        raise InputError(name, value, "a whole number of at least 1")
    return int(value)


def _question(
    model: str,
    node: str,
    input_tokens: int,
    output_tokens: int,
    precision: str | None,
    kv: str | None,
    engine: str,
    prefix_hit_rate: float,
) -> dict[str, Any]:
    given = {"default": precision, "kv": kv}
    question: dict[str, Any] = {
        "schema": "planner.scenario/1",
        "name": "sheet",
        "model": model,
        "precision": {k: v for k, v in given.items() if v is not None},
        "hardware": {"candidates": [{"node": node}]},
        "engine": {"name": engine},
        "workload": {
            "input_tokens": {"kind": "fixed", "tokens": _whole("input_tokens", input_tokens)},
            "output_tokens": {"kind": "fixed", "tokens": _whole("output_tokens", output_tokens)},
            "prefix_hit_rate": prefix_hit_rate,
        },
        "slo": {},
    }
    if model.lower().endswith((".json", ".yaml", ".yml")):
        question["model_spec"] = _model(model).model_dump(mode="json")
    return question


def _slo(ttft_limit_ms: float | None, tpot_limit_ms: float | None) -> dict[str, Any]:
    limits = {"ttft_ms": ttft_limit_ms, "tpot_ms": tpot_limit_ms}
    return {metric: {"mean": limit} for metric, limit in limits.items() if limit is not None}


def _loop(question: dict[str, Any], node: str, concurrency: float, layout: Layouts) -> Candidate:
    from planner.search.planning import estimate

    in_flight = _whole("concurrency", concurrency)
    question["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": in_flight}
    with _arguments():
        answer = estimate(_scenario(question), layout, node=node, concurrency=in_flight)
    if not answer.feasible:
        raise InfeasibleError("; ".join(r.example for r in answer.rejected) or "the layout does not fit")
    return answer.candidate


def _best(question: dict[str, Any]) -> Candidate:
    from planner.search.headline import headline
    from planner.search.planning import plan

    with _arguments():
        answer = plan(_scenario(question))
    if answer.best is None:
        raise InfeasibleError(headline(answer))
    return answer.best


def _scenario(question: dict[str, Any]) -> Scenario:
    from planner.catalog import catalog
    from planner.scenario.load import check_names, scenario_from_data

    scenario = scenario_from_data(question)
    check_names(scenario, catalog())
    return scenario


@contextmanager
def _arguments() -> Iterator[None]:
    """What is wrong is named by the function's arguments, which are called like the columns of a table."""
    from planner.sheet.rows import by_column

    try:
        yield
    except InputError as error:
        raise by_column(error, ()) from None


def _number(value: float | None, name: str) -> float:
    if value is None:
        raise InfeasibleError(f"{name} is not known for this deployment")
    return float(value)
