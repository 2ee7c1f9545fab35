"""Weights per rank: conservation, worst rank, published and measured sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.memory.sharding import Shards, rank_tensor
from planner.memory.weights import rope_cache_bytes, stage_table
from planner.model.builder import tensors
from planner.model.precision import PrecisionPlan, tensor_bytes
from planner.units import GIB

VLLM = engine_memory("vllm")
MODELS = ["deepseek-v3", "qwen3-30b-a3b", "llama-3.1-70b", "gpt-oss-20b", "gemma-2-27b", "qwen3-next-80b-a3b"]


def _table(model: str, engine: str = "vllm", mtp: bool = False, **layout: int):
    spec = catalog().model(model)
    plan = PrecisionPlan.from_checkpoint(spec)
    return spec, plan, stage_table(spec, plan, Layouts.of(**layout), engine_memory(engine), mtp=mtp)


def _shards(tp: int, moe_tp: int, ep: int, redundant: int = 0) -> Shards:
    one = np.ones(1, dtype=np.int64)
    return Shards(one * tp, one * tp, one * tp, one * moe_tp, one * ep, one * redundant, 64)


@given(model=st.sampled_from(MODELS), tp=st.sampled_from([1, 2, 3, 4, 8]), ep=st.sampled_from([1, 2, 4, 8]))
@settings(deadline=None, max_examples=60)
def test_ranks_together_hold_every_parameter(model: str, tp: int, ep: int) -> None:
    moe_tp = max(tp // ep, 1)
    for tensor in tensors(catalog().model(model)):
        held = rank_tensor(tensor, _shards(tp, moe_tp, ep))
        rank = float(held.rows[0] * held.cols[0] * held.copies[0])
        whole = tensor.rows * tensor.cols * tensor.copies
        ranks = moe_tp * ep if tensor.shard.startswith("experts") else tp
        assert rank * ranks >= whole
        assert rank >= whole / ranks, "the fullest rank holds at least the mean"


def test_a_full_split_conserves_parameters_exactly() -> None:
    for tensor in tensors(catalog().model("llama-3.1-70b")):
        if tensor.shard == "replicated":
            continue
        held = rank_tensor(tensor, _shards(8, 8, 1))
        assert 8 * held.rows[0] * held.cols[0] * held.copies[0] == tensor.rows * tensor.cols * tensor.copies


def test_kv_heads_replicate_beyond_their_number() -> None:
    k_proj = next(t for t in tensors(catalog().model("qwen3-30b-a3b")) if t.name == "k_proj")
    assert rank_tensor(k_proj, _shards(8, 8, 1)).rows[0] == 128, "one of 4 KV heads, on two ranks each"


def test_redundant_experts_fill_the_ranks() -> None:
    up = next(t for t in tensors(catalog().model("deepseek-v3")) if t.name == "experts_up_proj")
    assert rank_tensor(up, _shards(1, 1, 32)).copies[0] == 8
    assert rank_tensor(up, _shards(1, 1, 32, 32)).copies[0] == 9
    assert rank_tensor(up, _shards(1, 1, 144, 32)).copies[0] == 2, "EP144 with 32 replicas: two experts a rank"


@pytest.mark.parametrize("model", MODELS)
def test_one_rank_holds_the_whole_checkpoint(model: str) -> None:
    spec, plan, table = _table(model)
    whole = sum(tensor_bytes(t, plan.format_of(t.tensor_class)) for t in tensors(spec) if t.part in ("main", "vision"))
    padding = {"gpt-oss-20b": 1.06}.get(model, 1.001)
    assert whole <= table.weights[0, 0] - rope_cache_bytes(spec, VLLM) <= padding * whole


def test_classes_sum_to_the_weights() -> None:
    _, _, table = _table("deepseek-v3", tp=8, pp=4)
    assert table.exists.tolist() == [[True, True, True]]
    assert np.sum(list(table.by_class.values()), axis=0) == pytest.approx(table.weights)


def test_a_tied_table_is_stored_once_on_one_stage_and_on_both_ends_of_a_pipeline() -> None:
    _, _, one = _table("gemma-2-27b")
    _, _, two = _table("gemma-2-27b", pp=2)
    embedding = 256000 * 4608 * 2
    assert one.by_class["embedding"][0, 0] == embedding
    assert two.by_class["embedding"][0].tolist() == [embedding, 0, embedding]


def test_stages_of_deepseek_v25_on_16_a100() -> None:
    # cases/questions.yaml deepseek_v2.5_16xa100_40g_pool: 27.63 and 28.48 GiB in the engine's log.
    _, _, table = _table("deepseek-v2.5", tp=8, pp=2)
    assert table.weights[0, [0, 2]] / GIB == pytest.approx([27.63, 28.48], rel=0.005)


def test_kimi_k25_nvfp4_on_b200() -> None:
    # cases/logs vllm_0.22.0_kimik2.5_nvfp4_b200_tp4: 139.53 GiB at TP4; the same model at TP8: 71.01.
    spec = catalog().model("kimi-k2.5")
    high = dict.fromkeys(("attention", "dense_mlp", "shared_experts"), "bf16")
    plan = PrecisionPlan.from_checkpoint(spec).with_overrides({"routed_experts": "nvfp4"} | high)
    table = stage_table(spec, plan, Layouts.of(tp=[4, 8]), VLLM)
    assert table.weights[table.of, 0] / GIB == pytest.approx([139.53, 71.01], rel=0.005)


def test_the_mtp_block_stays_only_when_asked() -> None:
    _, _, without = _table("deepseek-v3", tp=8)
    _, _, with_block = _table("deepseek-v3", mtp=True, tp=8)
    extra = with_block.weights[0, 0] - without.weights[0, 0]
    assert 1.2 * GIB < extra < 2.2 * GIB, "11.6 B parameters in FP8 over 8 ranks, its projection replicated"
    with pytest.raises(InputError, match="multi-token"):
        _table("llama-3.1-8b", mtp=True)


def test_sglang_holds_dense_layers_and_embedding_whole_under_attention_dp() -> None:
    """3 dense layers of 3 x 7168 x 18432 in FP8 and an embedding of 129280 x 7168 in BF16; the head over attention TP.

    sglang/srt/models/deepseek_v2.py with --moe-dense-tp-size 1 and --enable-dp-lm-head, as exports set them.
    """
    vocabulary, dense = 129280 * 7168 * 2, 3 * 3 * 7168 * 18432
    for tp in (1, 2, 4):
        _, _, sglang = _table("deepseek-v3", "sglang", tp=tp, attention_dp=32 // tp, ep=32)
        assert sglang.by_class["embedding"][0, 0] == vocabulary
        assert sglang.by_class["dense_mlp"][0, 0] == pytest.approx(dense, rel=0.001)
        assert sglang.by_class["head"][0, 0] == vocabulary / tp


def test_without_attention_dp_sglang_splits_as_vllm_does() -> None:
    _, _, vllm = _table("deepseek-v3", "vllm", tp=8, ep=8)
    _, _, sglang = _table("deepseek-v3", "sglang", tp=8, ep=8)
    for name in ("embedding", "head", "dense_mlp"):
        assert vllm.by_class[name][0, 0] == sglang.by_class[name][0, 0]


def test_equal_layouts_share_a_row() -> None:
    spec = catalog().model("deepseek-v3")
    layouts = Layouts.of(tp=[8, 1, 8, 1], attention_dp=[1, 8, 1, 8], ep=[1, 8, 1, 8])
    table = stage_table(spec, PrecisionPlan.from_checkpoint(spec), layouts, VLLM)
    assert table.weights.shape == (2, 3)
    assert table.of.tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
