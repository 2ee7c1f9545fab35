"""The memory budget: identities, monotonicity, engines, vectorisation, published cases."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.errors import InputError
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.memory.budget import TERMS, MemoryBudget, memory_budget
from planner.model.precision import PrecisionPlan
from planner.units import GIB

ENGINES = ("vllm", "sglang", "trtllm")


def _budget(
    model: str, accelerator: str = "h100-sxm", engine: str = "vllm", precision=None, layouts=None, **options
) -> MemoryBudget:
    cat = catalog()
    spec = cat.model(model)
    layout = {k: options.pop(k) for k in ("tp", "pp", "attention_dp", "ep", "redundant_experts") if k in options}
    settings_ = {"max_num_seqs": 256, "max_num_batched_tokens": 8192} | options
    return memory_budget(
        spec,
        PrecisionPlan.from_checkpoint(spec).with_overrides(precision or {}),
        layouts if layouts is not None else Layouts.of(**layout),
        device(cat.accelerator(accelerator)),
        engine,
        **settings_,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("model", "layout"), [("llama-3.1-8b", {}), ("deepseek-v3", {"tp": 8, "pp": 4})])
def test_terms_sum_to_the_capacity(engine: str, model: str, layout: dict) -> None:
    budget = _budget(model, engine=engine, **layout)
    assert sum(budget.term(name) for name in TERMS) == pytest.approx(budget.capacity)
    assert set(budget.gib(0)) == {*TERMS, "total", "capacity"}


@pytest.mark.parametrize("engine", ENGINES)
@given(seqs=st.integers(1, 2000), tokens=st.integers(1, 200_000), step=st.integers(16, 32768), more=st.integers(1, 500))
@settings(deadline=None, max_examples=25)
def test_need_grows_with_batch_and_context(engine: str, seqs: int, tokens: int, step: int, more: int) -> None:
    budget = _budget(
        "qwen3-8b",
        engine=engine,
        max_num_seqs=[seqs, seqs + more, seqs, seqs],
        max_num_batched_tokens=[step, step, step + more, step],
        needed_sequences=[seqs, seqs + more, seqs, seqs],
        needed_tokens=[tokens, tokens, tokens, tokens + more],
        gpu_memory_utilization=0.9,
    )
    outside = budget.kv + budget.margin
    assert outside[1] <= outside[0]
    assert outside[2] <= outside[0]
    assert budget.needed_kv[1] >= budget.needed_kv[0]
    assert budget.needed_kv[3] >= budget.needed_kv[0]
    assert budget.sequences(tokens + more)[0] <= budget.sequences(tokens)[0]


def test_a_lack_of_memory_is_reported_in_full() -> None:
    budget = _budget("llama-3.1-405b", tp=1)
    assert not budget.fits[0]
    assert budget.kv[0] < -300 * GIB, "negative need is never clipped"
    assert budget.shortfall[0] >= -budget.kv[0]
    assert budget.total[0] == budget.capacity[0] + budget.shortfall[0]


def test_more_cache_than_there_is_does_not_fit() -> None:
    budget = _budget("llama-3.1-8b", needed_tokens=4000, needed_sequences=[1, 10_000])
    assert budget.fits.tolist() == [True, False]
    assert budget.shortfall[1] == pytest.approx(budget.needed_kv[1] - budget.kv[1])


def test_graphs_are_inside_the_budget_from_020_on() -> None:
    old = _budget("llama-3.1-8b", engine_version="0.19.0", gpu_memory_utilization=0.9)
    new = _budget("llama-3.1-8b", engine_version="0.20.0", gpu_memory_utilization=0.9)
    assert old.kv[0] - new.kv[0] == pytest.approx(new.graphs[0])
    eager = _budget("llama-3.1-8b", engine_version="0.20.0", gpu_memory_utilization=0.9, cuda_graphs=False)
    assert eager.kv[0] == pytest.approx(old.kv[0])


def test_a_share_that_leaves_no_room_for_graphs_is_refused() -> None:
    budget = _budget("llama-3.1-8b", engine_version="0.19.0", gpu_memory_utilization=[0.95, 0.995])
    assert budget.fits.tolist() == [True, False]
    assert budget.margin[1] < 0 < budget.kv[1]


def test_sglang_pool_follows_its_log() -> None:
    # case log sglang_glm5.1_mxfp4_mi355x_tp2: 79.62 GB free after load of 279.13 before, share 0.85: 37.74 GB pool.
    budget = _budget("glm-4.6", "mi355x", "sglang", tp=8, gpu_memory_utilization=0.85)
    free = budget.capacity - budget.runtime - budget.collectives
    assert budget.kv[0] == pytest.approx(free[0] - budget.weights[0] - 0.15 * free[0])
    assert pytest.approx(37.74, abs=0.02) == 79.62 - 279.13 * 0.15


def test_trtllm_takes_a_share_of_what_is_left() -> None:
    # case log trtllm_1.1.0_pytorch_tinyllama: 0.9 x (47.37 - 5.13 + 1.38) = 39.26 GiB.
    budget = _budget("llama-3.1-8b", engine="trtllm")
    rest = budget.capacity - sum(budget.term(t) for t in TERMS if t not in ("kv", "margin"))
    assert budget.kv[0] == pytest.approx(0.9 * rest[0])


def test_graphs_of_a_planned_launch_are_paid_for() -> None:
    """Launch scripts have TensorRT-LLM capture the plan's batch, which it would not by itself."""
    own, planned = (
        _budget("llama-3.3-70b", engine="trtllm", tp=8, max_num_seqs=[128, 512], planned=flag) for flag in (False, True)
    )
    assert own.graphs[0] == own.graphs[1] == planned.graphs[0] < planned.graphs[1]
    assert planned.kv[1] < own.kv[1]


def test_kimi_k25_on_four_and_eight_b200() -> None:
    # cases/questions.yaml rec_tp4_to_tp8_pool: 17.16 and 84.13 GiB, a factor 4.9 (graphs outside the budget).
    high = dict.fromkeys(("attention", "dense_mlp", "shared_experts"), "bf16")
    budget = _budget(
        "kimi-k2.5",
        "b200-sxm",
        precision={"routed_experts": "nvfp4", "kv": "fp8"} | high,
        tp=[4, 8],
        max_num_seqs=12,
        gpu_memory_utilization=0.9,
        engine_version="0.19.0",
    )
    assert budget.kv / GIB == pytest.approx([17.16, 84.13], rel=0.1)


def test_mixtral_and_scout_do_not_fit_one_h100() -> None:
    # measured/memory_runs.csv: both died of memory.
    assert not _budget("mixtral-8x7b").fits[0]
    assert not _budget("llama-4-scout", tp=2).fits[0]


def test_the_last_stage_binds_because_it_samples() -> None:
    # measured/memory_runs.csv: Llama-3.1-8B PP2: 66.54 GiB on the first rank, 65.64 on the last.
    options = {"pp": 2, "max_num_seqs": 1024, "gpu_memory_utilization": 0.95, "engine_version": "0.19.0"}
    budget = _budget("llama-3.1-8b", **options)
    assert budget.stage_name(0) == "last"
    assert budget.kv[0] / GIB == pytest.approx(65.64, abs=0.1)
    assert _budget("llama-3.1-8b", stage="first", **options).kv[0] / GIB == pytest.approx(66.54, abs=0.1)
    with pytest.raises(InputError, match="stage"):
        _budget("llama-3.1-8b", stage="middle", **options)


def test_one_call_for_many_equals_many_calls() -> None:
    layouts = Layouts.of(tp=[1, 8, 1, 4], pp=[4, 1, 1, 2], attention_dp=[8, 1, 16, 2], ep=[8, 1, 16, 8])
    together = _budget("deepseek-v3", layouts=layouts, max_num_seqs=[8, 64, 256, 512])
    for i, seqs in enumerate([8, 64, 256, 512]):
        one = _budget("deepseek-v3", layouts=layouts.take([i]), max_num_seqs=seqs)
        assert one.gib(0) == pytest.approx(together.gib(i))
        assert one.kv_tokens[0] == together.kv_tokens[i]


def test_a_million_candidates_in_about_a_second() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    tp, dp, pp = (2 ** rng.integers(0, high, n) for high in (4, 6, 3))
    layouts = Layouts.of(tp=tp, attention_dp=dp, pp=pp, ep=np.where(rng.random(n) < 0.5, tp * dp, 1))
    seqs = rng.integers(1, 512, n)
    _budget("deepseek-v3", "h800-sxm", layouts=layouts.take([0]))
    took = []
    for _ in range(3):
        start = time.process_time()  # a busy machine must not fail it
        budget = _budget("deepseek-v3", "h800-sxm", layouts=layouts, max_num_seqs=seqs, needed_tokens=5000)
        took.append(time.process_time() - start)
    assert budget.fits.shape == (n,)
    assert min(took) < 2.0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"gpu_memory_utilization": 1.2}, "gpu_memory_utilization"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens"),
        ({"pp": 64}, "layout.pp"),
        ({"mtp": True}, "mtp"),
    ],
)
def test_wrong_settings_name_their_field(options: dict, field: str) -> None:
    with pytest.raises(InputError, match=field):
        _budget("llama-3.1-8b", **options)


def test_an_uneven_pipeline_weighs_by_its_layers() -> None:
    even = _budget("llama-3.1-8b", pp=2, stage="first")
    hand = _budget("llama-3.1-8b", pp=2, stage="first", stage_layers=(16, 16))
    few = _budget("llama-3.1-8b", pp=2, stage="first", stage_layers=(8, 24))
    assert hand.weights[0] == even.weights[0]
    assert few.weights[0] < even.weights[0]
    assert few.kv_bytes_per_token[0] == even.kv_bytes_per_token[0] / 2
    with pytest.raises(InputError, match="stage_layers"):
        _budget("llama-3.1-8b", pp=2, stage_layers=(8, 8))
