"""One step: factors, launches and small kernels enter where they should; terms add up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from planner.catalog import catalog
from planner.evidence.run_terms import _phase
from planner.hardware.curves import curves
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import (
    COLUMNS,
    StepCoefficients,
    column_of,
    step_coefficients,
    unit_coefficients,
)
from planner.roofline.intensity import step_work
from planner.roofline.op_collectives import all_reduce
from planner.roofline.program import program
from planner.roofline.step import (
    LINEAR_TERMS,
    TERMS,
    StepContext,
    StepTimes,
    StepWork,
    kernel_layers,
    launch_excess,
    step_times,
)

MODEL = "qwen3-235b-a22b"
DECODE = StepWork(np.array([32.0]), np.array([2048.0]))
PROMPT = StepWork(
    np.array([32.0]), np.array([2048.0]), np.array([512.0]), np.array([1.0]), np.array([0.0]), np.array([512.0])
)
NO = np.zeros(1, dtype=bool)


@cache
def _context() -> StepContext:
    spec = catalog().model(MODEL)
    here = device(catalog().accelerator("h200-sxm"))
    return StepContext(
        program(spec), PrecisionPlan.from_checkpoint(spec), curves(here, "vllm"), unit_coefficients(), 8, 0.0
    )


def _times(coefficients: StepCoefficients, work: StepWork = DECODE, **layout: int) -> StepTimes:
    return step_times(replace(_context(), coefficients=coefficients), Layouts.of(**(layout or {"tp": 4})), work, NO, NO)


def test_every_term_is_there_and_they_add_up() -> None:
    found = _times(unit_coefficients())
    assert set(found.exposed) == set(TERMS)
    assert float(found.total[0]) == pytest.approx(sum(float(v[0]) for v in found.exposed.values()))


@pytest.mark.parametrize("factor", [0.8, 2.5])
def test_a_factor_does_not_multiply_what_weaker_tensor_cores_add(factor: float) -> None:
    h20 = device(catalog().accelerator("h20-96g"))
    eight_bit = replace(_context().precision, routed_experts="fp8_block")
    ctx = replace(_context(), precision=eight_bit, curves=curves(h20, "sglang"))
    layouts, own = Layouts.of(tp=4), column_of("experts", ctx.precision.routed_experts)
    many = StepWork(
        np.zeros(1), np.array([4096.0]), np.array([16384.0]), np.array([4.0]), np.zeros(1), np.array([16384.0])
    )
    before = step_times(ctx, layouts, many, NO, NO)
    factors = tuple(factor if i == own else 1.0 for i in range(len(COLUMNS)))
    after = step_times(
        replace(ctx, coefficients=replace(ctx.coefficients, prefill_factors=factors)), layouts, many, NO, NO
    )
    plain, apart = float(before.exposed["routed_experts"][0]), float(np.asarray(before.expert_apart)[0])
    assert 0.2 * plain < apart < 0.8 * plain
    assert float(after.exposed["routed_experts"][0]) == pytest.approx(apart + factor * (plain - apart))
    phase = _phase(before, layouts, many, ctx)
    assert float(phase.operators[0, own]) == pytest.approx(plain - apart), "runs are read as plans are made"
    assert np.all(np.asarray(step_times(_context(), layouts, many, NO, NO).expert_apart) == 0.0)


def test_a_factor_scales_its_family_and_type_only() -> None:
    plain = unit_coefficients()
    own = column_of("experts", _context().precision.routed_experts)
    factors = tuple(2.0 if i == own else 1.0 for i in range(len(COLUMNS)))
    before, after = _times(plain), _times(replace(plain, decode_factors=factors))
    for term in TERMS:
        ratio = 2.0 if term == "routed_experts" else 1.0
        assert after.exposed[term][0] == pytest.approx(ratio * before.exposed[term][0])
    assert _times(replace(plain, prefill_factors=factors)).total[0] == pytest.approx(before.total[0])


def test_host_time_is_paid_once_a_step_and_stage() -> None:
    plain = unit_coefficients()
    slow = replace(plain, host_step_s=1e-3, host_seq_s=1e-5)
    added = _times(slow).exposed["host"] - _times(plain).exposed["host"]
    assert added[0] == pytest.approx(1e-3 + 32e-5)
    added = _times(slow, tp=4, pp=2).exposed["host"] - _times(plain, tp=4, pp=2).exposed["host"]
    assert added[0] == pytest.approx(2e-3 + 32e-5)


def test_small_kernels_count_layers_and_expert_layers() -> None:
    plain = unit_coefficients()
    slow = replace(plain, layer_overhead_s=1e-6, moe_layer_overhead_s=1e-5)
    layers, experts = _context().program.layers, _context().program.moe_layers
    added = _times(slow).exposed["norms_other"] - _times(plain).exposed["norms_other"]
    norms = layers * plain.qk_norm_kernels  # norms of queries and keys in every layer of this model
    assert added[0] == pytest.approx((layers + norms) * 1e-6 + experts * 1e-5)


def test_routed_experts_take_no_less_than_streaming_their_weights() -> None:
    plain = unit_coefficients()
    low = replace(plain, decode_factors=(1e-3,) * len(COLUMNS))
    found = _times(low)
    one = _context().program.moes[0].spec
    weights = 128 * 3 * 4096 * one.expert_intermediate_size / 4 * 2.0 * _context().program.layers
    touched = 1.0 - (1.0 - 8 / 128) ** 32
    assert found.exposed["routed_experts"][0] == pytest.approx(touched * weights / _context().curves.device.mem_bw)
    assert _times(plain).exposed["routed_experts"][0] > found.exposed["routed_experts"][0]


def test_linear_layers_take_no_less_than_streaming_their_weights() -> None:
    plain = unit_coefficients()
    own = {column_of("linear", getattr(_context().precision, name)) for name in ("attention", "head", "router")}
    factors = tuple(0.1 if i in own else 1.0 for i in range(len(COLUMNS)))
    found = _times(replace(plain, decode_factors=factors))
    linear = sum(float(found.exposed[term][0]) for term in LINEAR_TERMS)
    stream = float(np.asarray(found.linear_stream)[0])
    assert linear == pytest.approx(stream)
    # 94 layers: queries and outputs of 64 heads, keys and values of 4, over 4 ranks; the router; a fourth of the head
    layer = 4096 * ((2 * 64 + 2 * 4) * 128 / 4 + 128) * 2.0
    size = 94 * layer + 151_936 * 4096 * 2.0 / 4
    assert stream == pytest.approx(size / _context().curves.device.mem_bw)


def test_experts_behind_a_dispatch_take_the_time_that_was_measured() -> None:
    """Factors come from runs of fused kernels; they do not slow or speed kernels of another kind."""
    spec = catalog().model("deepseek-v3")
    here = device(catalog().accelerator("h200-sxm"))
    slow = replace(unit_coefficients(), decode_factors=(2.0,) * len(COLUMNS))
    layout, yes = Layouts.of(attention_dp=32, ep=32, moe_tp=1, tp=1), np.ones(1, dtype=bool)
    seconds = {}
    for name, coefficients in (("plain", unit_coefficients()), ("slow", slow)):
        ctx = StepContext(
            program(spec), PrecisionPlan.from_checkpoint(spec), curves(here, "sglang"), coefficients, 8, 0.0
        )
        for way, direct in (("dispatched", yes), ("gathered", ~yes)):
            seconds[name, way] = float(step_times(ctx, layout, DECODE, ~yes, direct).exposed["routed_experts"][0])
    assert seconds["slow", "dispatched"] == pytest.approx(seconds["plain", "dispatched"])
    assert seconds["slow", "gathered"] == pytest.approx(2.0 * seconds["plain", "gathered"])


def test_launches_show_only_where_no_graph_is_replayed() -> None:
    slow = replace(unit_coefficients(), launch_layer_s=2e-3)
    assert _times(slow).total[0] == pytest.approx(_times(unit_coefficients()).total[0])
    least = 2e-3 * _context().program.layers
    assert _times(slow, PROMPT).total[0] >= least
    eager = step_times(replace(_context(), coefficients=slow, cuda_graphs=False), Layouts.of(tp=4), DECODE, NO, NO)
    assert eager.total[0] >= least


def test_launch_excess_vanishes_behind_a_long_step() -> None:
    assert launch_excess(np.array([1.0]), 0.1)[0] < 1e-4
    assert launch_excess(np.array([0.1]), 1.0)[0] == pytest.approx(0.9, rel=0.01)
    assert launch_excess(np.array([0.0]), 0.0)[0] == 0.0


def test_more_sequences_take_longer_and_more_ranks_less() -> None:
    coefficients = step_coefficients("vllm", "hopper")
    ctx = replace(_context(), coefficients=coefficients)
    seqs = np.array([1.0, 8.0, 64.0, 256.0])
    none = np.zeros(4, dtype=bool)
    total = step_times(ctx, Layouts.of(tp=np.full(4, 8)), StepWork(seqs, np.full(4, 2048.0)), none, none).total
    assert np.all(np.diff(total) > 0)
    work = StepWork(np.full(4, 64.0), np.full(4, 2048.0))
    total = step_times(ctx, Layouts.of(tp=np.array([1, 2, 4, 8])), work, none, none).total
    assert np.all(np.diff(total) < 0)


def test_a_context_step_is_longer_than_a_decode_step() -> None:
    coefficients = step_coefficients("sglang", "blackwell")
    assert _times(coefficients, PROMPT).total[0] > _times(coefficients).total[0]


@pytest.mark.parametrize(
    ("engine", "generation", "said"),
    [
        ("vllm", "hopper", 0),
        ("vllm", "blackwell-ultra", 1),
        ("trtllm", "cdna3", 1),
        ("another", "hopper", 2),
    ],
)
def test_coefficients_that_stand_in_say_so(engine: str, generation: str, said: int) -> None:
    found = step_coefficients(engine, generation)
    assert len(found.marks) == said
    assert min(found.decode_factors) > 0


def test_blackwell_ultra_takes_blackwell() -> None:
    assert replace(step_coefficients("vllm", "blackwell-ultra"), marks=()) == step_coefficients("vllm", "blackwell")


def test_sparse_attention_runs_the_indexers_small_kernels_too() -> None:
    coefficients = replace(unit_coefficients(), layer_overhead_s=1e-6)
    counted = {}
    for model in ("deepseek-v3", "deepseek-v3.2"):
        spec = catalog().model(model)
        ctx = replace(_context(), program=program(spec), coefficients=coefficients)
        counted[model] = kernel_layers(ctx) / ctx.program.layers
    assert counted["deepseek-v3"] == pytest.approx(1.0 + coefficients.latent_kernels)
    assert counted["deepseek-v3.2"] == pytest.approx(counted["deepseek-v3"] + coefficients.indexer_kernels)


def test_hotter_experts_slow_a_step_whose_busiest_rank_binds() -> None:
    """With many tokens a rank; with few, weights bind, and uneven routing streams fewer of them."""
    spec = catalog().model("kimi-k2")
    here = device(catalog().accelerator("gb200-nvl72"))
    layout, yes = Layouts.of(attention_dp=32, ep=32, moe_tp=1, tp=1), np.ones(1, dtype=bool)
    seconds = {}
    for tokens in (8.0, 128.0, 512.0):
        for skew in (0.0, 1.0, 3.0):
            ctx = StepContext(
                program(spec),
                PrecisionPlan.from_checkpoint(spec),
                curves(here, "sglang"),
                unit_coefficients(),
                72,
                skew,
            )
            work = StepWork(np.array([tokens]), np.array([4000.0]))
            seconds[tokens, skew] = float(step_times(ctx, layout, work, ~yes, yes).exposed["routed_experts"][0])
    for busy in (128.0, 512.0):
        assert seconds[busy, 0.0] < seconds[busy, 1.0] < seconds[busy, 3.0]
    assert seconds[8.0, 3.0] == pytest.approx(seconds[8.0, 0.0], rel=0.1)


def test_dense_layers_kept_whole_stream_all_their_weights_and_do_a_share_of_the_tokens() -> None:
    """DeepSeek-V3, attention TP 4: for one sequence a rank streams 4 times the weights, for many it works as much."""
    spec = catalog().model("deepseek-v3")
    here = device(catalog().accelerator("h200-sxm"))
    split = StepContext(
        program(spec), PrecisionPlan.from_checkpoint(spec), curves(here, "sglang"), unit_coefficients(), 8, 0.0
    )
    whole = replace(split, whole_dense=True)
    layout = Layouts.of(tp=4, attention_dp=2, ep=8)

    def dense(ctx: StepContext, sequences: float, layouts: Layouts = layout) -> float:
        work = StepWork(np.array([sequences]), np.array([1024.0]))
        return float(step_times(ctx, layouts, work, NO, NO).exposed["dense_mlp"][0])

    def streamed(ctx: StepContext) -> float:
        work = StepWork(np.array([1.0]), np.array([1024.0]))
        return float(step_work(spec, ctx, layout, work, NO)["dense_mlp"].bytes[0])

    assert streamed(whole) == pytest.approx(4 * streamed(split), rel=0.01)
    assert dense(whole, 4.0) > dense(split, 4.0)
    assert dense(whole, 65536.0) == pytest.approx(dense(split, 65536.0), rel=0.05)
    alone = Layouts.of(tp=8, ep=8)
    assert dense(whole, 32.0, alone) == dense(split, 32.0, alone)


def test_all_reduces_between_domains_are_nccls_and_take_no_factor() -> None:
    """TP16 on nodes of 8: an engine's own all-reduce does not leave a node, nor does a calibrated run."""
    spec = catalog().model("deepseek-v3")
    node = catalog().node("dgx-h100")
    here = device(catalog().accelerator("h100-sxm"), node)
    plain = StepContext(
        program(spec), PrecisionPlan.from_checkpoint(spec), curves(here, "vllm"), unit_coefficients(), 8, 0.0
    )
    own = column_of("communication")
    factors = tuple(2.0 if i == own else 1.0 for i in range(len(COLUMNS)))
    slowed = replace(plain, coefficients=replace(plain.coefficients, decode_factors=factors))
    layouts = Layouts.of(tp=[8, 16])
    work = StepWork(np.full(2, 4.0), np.full(2, 1024.0))
    flags = np.zeros(2, dtype=bool)
    before, after = (step_times(ctx, layouts, work, flags, flags).exposed["collectives"] for ctx in (plain, slowed))
    assert after[0] == pytest.approx(2 * before[0])
    assert after[1] == before[1]
    calls = 61 + 61  # after attention and after the MLP or experts of every layer
    message = 4 * 7168 * 2.0
    curve = plain.curves.get("all_reduce_nccl", "bf16")
    assert before[1] / calls == pytest.approx(float(all_reduce(curve, message, 16, 8)))
