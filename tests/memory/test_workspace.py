"""Activation peak, sampler, expert workspace, graphs, collectives."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog import catalog
from planner.memory.coefficients import engine_memory
from planner.memory.workspace import (
    captured_graphs,
    dispatch_sequences,
    dispatch_tokens,
    expert_collectives,
    expert_workspace,
    forward_peak,
    graph_pool,
    graph_terms,
    largest_graph,
    layer_widths,
    sampler_peak,
    tensor_collectives,
)
from planner.model.precision import PrecisionPlan
from planner.units import GIB

VLLM = engine_memory("vllm")
NEW, OLD = VLLM.coefficients("0.19.0"), VLLM.coefficients("0.11.0")


def _widths(model: str):
    spec = catalog().model(model)
    return layer_widths(spec, PrecisionPlan.from_checkpoint(spec))


def test_sampler_peak_of_llama_with_both_samplers() -> None:
    # measured/memory_runs.csv: Llama-3.1-8B, 1024 sequences, 8192 tokens: 1.89 GiB fused, 4.76 GiB native sort.
    run = {"max_num_seqs": 1024, "vocab": 128256, "tokens": 8192, "hidden": 4096, "value_bytes": 2}
    assert float(sampler_peak(NEW, **run)) / GIB == pytest.approx(1.89, abs=0.02)
    assert float(sampler_peak(OLD, **run)) / GIB == pytest.approx(4.76, abs=0.02)


def test_layer_peak_decides_for_small_vocabularies() -> None:
    # TensorRT-LLM 1.1.0 log of TinyLlama-1.1B (hidden 2048, intermediate 5632): 0.39 GiB at 8192 tokens.
    widths = _widths("llama-3.1-8b")
    tiny = type(widths)(**(vars(widths) | {"hidden": 2048, "dense": 3.0 * 5632, "attention": 0.0}))
    peak = forward_peak(tiny, NEW, tokens=8192, tp=1, value_bytes=2)
    assert float(peak) / GIB == pytest.approx(0.39, abs=0.01)


def test_expert_workspace_of_deepseek_v2_lite() -> None:
    # 8192 x 6 rows x (max(1408, 2048) + max(2816, 2048)) x 2 B: what its torch peak exceeds the sampler's by.
    kept = expert_workspace(_widths("deepseek-v2-lite"), tokens=8192, moe_tp=1, ep=1, attention_dp=1, value_bytes=2)
    assert float(kept) == 8192 * 6 * (2048 + 2816) * 2


def test_graph_pool_shrinks_with_the_rank_s_share_of_the_widths() -> None:
    """memory_runs.csv, vLLM 0.19 on H100: Llama-3.1-8B 0.91, 0.76 and 0.67 GiB at TP 1, 2 and 4; Kimi-VL 1.50, 1.26."""
    one = np.ones(3, dtype=int)
    tp = np.array([1, 2, 4])
    layout = {"tp": tp, "moe_tp": tp, "ep": one, "attention_dp": one}
    llama = graph_pool(NEW, graph_terms(_widths("llama-3.1-8b"), VLLM, max_num_seqs=1024, layers=32, **layout)) / GIB
    assert llama == pytest.approx([0.91, 0.76, 0.67], rel=0.15)
    assert np.all(np.diff(llama) < 0)
    moe = graph_pool(NEW, graph_terms(_widths("deepseek-v2-lite"), VLLM, max_num_seqs=1024, layers=27, **layout)) / GIB
    assert moe[:2] == pytest.approx([1.50, 1.26], rel=0.2), "Kimi-VL's language model is of the same shape"


def test_graph_pool_grows_with_what_is_captured() -> None:
    layout = {"tp": 1, "moe_tp": 1, "ep": 8, "attention_dp": 8}
    widths = _widths("deepseek-v2-lite")
    sizes = graph_pool(NEW, graph_terms(widths, VLLM, max_num_seqs=[1, 8, 64, 256, 1024], layers=27, **layout))
    assert np.all(np.diff(sizes[:4]) > 0)
    assert sizes[3] == sizes[4], "512 sequences are the most that are captured"
    wider = graph_pool(NEW, graph_terms(widths, VLLM, max_num_seqs=64, layers=27, **(layout | {"ep": 4, "moe_tp": 2})))
    assert wider == pytest.approx(float(sizes[2])), "twice the replicas feed half the width"


def test_captured_sizes_of_the_default() -> None:
    # 1, 2, 4, 8 to 248 by 8, 256 to 512 by 16: 51 sizes, piecewise and full.
    assert captured_graphs([1, 2, 16, 256, 1024], VLLM).tolist() == [2 * n for n in (2, 3, 7, 51, 51)]


def test_captured_sizes_of_a_planned_tensorrt_llm_launch() -> None:
    """1, 2, 4, 8 to 120 by 8, then by 64 from 128: llm_args.py _generate_cuda_graph_batch_sizes with padding."""
    trtllm = engine_memory("trtllm")
    assert largest_graph([100, 250, 5000], trtllm).tolist() == [100, 128, 128]
    assert largest_graph([100, 250, 5000], trtllm, planned=True).tolist() == [100, 250, 2048]
    assert captured_graphs([128, 250, 256], trtllm, planned=True).tolist() == [19, 20, 21]
    assert captured_graphs([128, 250, 256], trtllm).tolist() == [19, 19, 19]
    assert (
        largest_graph([100, 250, 5000], VLLM, planned=True).tolist() == largest_graph([100, 250, 5000], VLLM).tolist()
    )


def test_collective_buffers_need_a_group_and_a_fabric() -> None:
    assert tensor_collectives(NEW, tp=[1, 2], scale_up=True).tolist() == [0.0, NEW.collectives_gib * GIB]
    assert tensor_collectives(NEW, tp=[1, 2], scale_up=False).tolist() == [0.0, 0.0]


def test_deepep_buffers_only_between_attention_dp_ranks() -> None:
    size = expert_collectives(
        _widths("deepseek-v3"), VLLM, experts=256, ep=[1, 8, 8], attention_dp=[8, 1, 8], redundant=0
    )
    assert size[:2].tolist() == [0.0, 0.0]
    assert size[2] == 4 * VLLM.deepep_tokens_per_rank * 256 * 7168 * 2


def test_widths_count_what_the_model_has() -> None:
    v3, llama = _widths("deepseek-v3"), _widths("llama-3.1-8b")
    assert (v3.mla_context, llama.mla_context) == (128 * (128 + 128), 0)
    assert llama.dense == 3 * 14336
    assert llama.dense_input_bytes == 0, "16-bit weights need no quantised copy of their input"
    assert v3.dense_input_bytes == 18432
    assert np.isclose(v3.experts, 3 * 8 * 2048)


def test_deepep_buffers_grow_with_the_tokens_of_a_step() -> None:
    """4 buffers x tokens x (256 + 32 experts) x 7168 x 2 B; what the engine has room for is there anyway."""
    sglang = engine_memory("sglang")
    layout = {"experts": 256, "ep": 72, "attention_dp": 72, "redundant": 32}
    size = expert_collectives(_widths("deepseek-v3"), sglang, tokens=[0, 128, 540, 1024], **layout)
    assert size.tolist() == [4 * n * 288 * 7168 * 2 for n in (128, 128, 540, 1024)]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_sequences_that_dispatch_holds_are_the_most_that_it_holds(engine: str) -> None:
    memory, tp = engine_memory(engine), np.array([1, 4])
    for queries in (1, 3, 4):
        most = dispatch_sequences(memory, queries=queries, tp=tp)
        if memory.deepep_most_tokens_per_rank is None:
            assert np.isinf(most).all()
            continue
        held = dispatch_tokens(memory, sequences=most, queries=queries, tp=tp)
        over = dispatch_tokens(memory, sequences=most + 1, queries=queries, tp=tp)
        assert (held <= memory.deepep_most_tokens_per_rank).all()
        assert (over > memory.deepep_most_tokens_per_rank).all()
    assert dispatch_tokens(memory, sequences=100, queries=2, tp=4) == (50 if engine == "sglang" else 200)
