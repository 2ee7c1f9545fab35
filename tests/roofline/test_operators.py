"""Properties of the operator formulas, on the fitted curves: floors, monotony, scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.errors import InputError
from planner.hardware.curves import Curve, curves
from planner.hardware.device import device
from planner.roofline import operators as op

MEASURED = ("a100-80g-sxm", "l40s", "h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72")
ENGINES = ("sglang", "vllm", "trtllm")
GPUS = st.sampled_from(MEASURED)
ENGINE = st.sampled_from(ENGINES)
SIZES = st.integers(1, 32768)


@cache
def curve(gpu: str, engine: str, name: str, dtype: str = "bf16") -> Curve:
    return curves(device(catalog().accelerator(gpu)), engine).get(name, dtype)


@given(GPUS, ENGINE, st.sampled_from(["bf16", "fp8", "fp8_block", "nvfp4", "int4_wo"]), SIZES, SIZES, SIZES)
def test_gemm_never_beats_the_roofline(gpu: str, engine: str, dtype: str, m: int, n: int, k: int) -> None:
    c = curve(gpu, engine, "gemm", dtype)
    floor = max(2.0 * m * n * k / c.peak_flops, n * k * c.weight_bytes / c.mem_bw)
    assert op.gemm(c, m, n, k) >= floor


@given(GPUS, ENGINE, st.integers(1, 256), SIZES, st.integers(0, 65536), st.sampled_from([1, 8, 32, 96]))
def test_attention_never_beats_the_roofline(gpu: str, engine: str, batch: int, new: int, past: int, heads: int) -> None:
    c = curve(gpu, engine, "prefill_attention")
    pairs = new * past + new * (new + 1) / 2
    assert op.prefill_attention(c, batch, new, past, heads, 1, 128) >= 4 * batch * heads * 128 * pairs / c.peak_flops
    d = curve(gpu, engine, "decode_attention")
    assert op.decode_attention(d, batch, past + new, heads, 1, 128) >= 4.0 * batch * (past + new) * 128 / d.mem_bw
    p = curve(gpu, engine, "prefill_mla")
    assert op.prefill_mla(p, batch, new, past, heads) >= 640 * batch * heads * pairs / p.peak_flops
    q = curve(gpu, engine, "decode_mla")
    cache_s = 2.0 * batch * (past + new) * 576 / q.mem_bw
    compute_s = 2176.0 * batch * (past + new) * heads / q.peak_flops
    assert op.decode_mla(q, batch, past + new, heads) >= max(cache_s, compute_s)


@given(GPUS, ENGINE, st.integers(1, 65536), st.sampled_from([1, 2, 8, 32]), st.floats(1.0, 4.0))
def test_experts_never_beat_the_roofline(gpu: str, engine: str, tokens: int, ep: int, load: float) -> None:
    c = curve(gpu, engine, "moe", "fp8_block")
    pairs, touched = op.rank_load(tokens, 8, 256, ep, load)
    time = op.grouped_gemm(c, tokens, 7168, 2048, 8, 256, 1, ep, load)
    assert time >= 6.0 * pairs * 7168 * 2048 / c.peak_flops
    assert time >= 3.0 * touched * 7168 * 2048 * c.weight_bytes / c.mem_bw


def _timers(gpu: str, engine: str) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    def c(name: str, dtype: str = "bf16") -> Curve:
        return curve(gpu, engine, name, dtype)

    return {
        "gemm m": lambda x: op.gemm(c("gemm", "fp8"), x, 4096, 4096),
        "gemm n": lambda x: op.gemm(c("gemm"), 64, x, 4096),
        "gemm k": lambda x: op.gemm(c("gemm"), 64, 4096, x),
        "prefill new": lambda x: op.prefill_attention(c("prefill_attention"), 2, x, 0, 32, 8, 128),
        "prefill past": lambda x: op.prefill_attention(c("prefill_attention"), 2, 64, x, 32, 8, 128),
        "prefill window": lambda x: op.prefill_attention(c("prefill_attention"), 2, 4096, 8192, 32, 8, 128, x),
        "decode kv": lambda x: op.decode_attention(c("decode_attention"), 8, x, 32, 8, 128),
        "decode batch": lambda x: op.decode_attention(c("decode_attention"), x, 512, 32, 8, 128),
        "prefill mla": lambda x: op.prefill_mla(c("prefill_mla"), 2, x, 0, 16),
        "decode mla": lambda x: op.decode_mla(c("decode_mla", "fp8"), 16, x, 128),
        "mla_bmm": lambda x: op.mla_bmm(c("mla_bmm"), x, 16),
        "moe": lambda x: op.grouped_gemm(c("moe", "fp8"), x, 4096, 1536, 8, 128, 2, 4),
        "all_reduce": lambda x: op.all_reduce(c("all_reduce"), x * 1024, 8),
        "all_reduce across": lambda x: op.all_reduce(c("all_reduce"), x * 1024, 32, 8),
        "all_gather": lambda x: op.all_gather(c("all_gather"), x * 1024, 4),
        "all_to_all across": lambda x: op.all_to_all(c("all_to_all"), x * 1024, 16, 8),
        "send": lambda x: op.send(c("send"), x * 1024),
        "send across": lambda x: op.send(c("send"), x * 1024, True),
    }


@pytest.mark.parametrize("gpu", MEASURED)
@pytest.mark.parametrize("engine", ENGINES)
def test_more_work_never_takes_less_time(gpu: str, engine: str) -> None:
    x = np.unique(np.geomspace(1, 131072, 200).round())
    for name, timer in _timers(gpu, engine).items():
        time = timer(x)
        assert time.shape == x.shape, name
        assert np.all(np.diff(time) >= 0), name
        assert np.all(time > 0), name


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72"])
@pytest.mark.parametrize("phase", ["ll", "normal"])
@pytest.mark.parametrize("way", ["dispatch", "combine"])
def test_deepep_grows_with_tokens_and_nodes(gpu: str, phase: str, way: str) -> None:
    c = curve(gpu, "sglang", f"deepep_{phase}_{way}", "fp8" if way == "dispatch" else "bf16")
    timer = getattr(op, f"deepep_{phase}_{way}")
    tokens = np.array([1.0, 16.0, 128.0, 1024.0])
    assert np.all(np.diff(timer(c, tokens, 7168, 8, 16)) > 0)
    assert np.all(np.diff(timer(c, 256, 7168, 8, np.array([16.0, 32.0, 64.0, 128.0]))) >= 0)


@given(st.floats(1.5, 8.0), st.integers(1, 8192))
def test_scaling_all_peaks_scales_the_roofline_term(factor: float, m: int) -> None:
    c = curve("h200-sxm", "vllm", "gemm")
    faster = replace(c, peak_flops=c.peak_flops * factor, mem_bw=c.mem_bw * factor)
    fixed = c["floor_s"] + 4096 * c["depth_s_per_element"]
    before, after = op.gemm(c, m, 4096, 4096) - fixed, op.gemm(faster, m, 4096, 4096) - fixed
    assert after == pytest.approx(before / factor, rel=1e-9)


def test_scaling_the_link_scales_large_messages() -> None:
    c = curve("h200-sxm", "vllm", "all_reduce")
    assert c.link_bw is not None
    twice = replace(c, link_bw=2 * c.link_bw)
    size = 2.0**30
    assert op.all_reduce(twice, size, 8) == pytest.approx(op.all_reduce(c, size, 8) / 2, rel=0.02)


def test_one_rank_needs_no_collective() -> None:
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        c = curve("h200-sxm", "vllm", name)
        assert getattr(op, name)(c, np.array([1e3, 1e9]), 1).tolist() == [0.0, 0.0]


def test_crossing_nodes_costs_more_than_staying_inside() -> None:
    c = curve("h200-sxm", "vllm", "all_reduce")
    assert op.all_reduce(c, 2**24, 16, 8) > op.all_reduce(c, 2**24, 8, 8)


def test_a_missing_nic_is_an_error_not_a_guess() -> None:
    c = replace(curve("h200-sxm", "sglang", "deepep_ll_dispatch", "fp8"), nic_bw=None)
    assert op.deepep_ll_dispatch(c, 8, 7168, 8, 8) > 0
    with pytest.raises(InputError, match="network bandwidth"):
        op.deepep_ll_dispatch(c, 8, 7168, 8, 16)


@given(st.integers(1, 300), st.integers(0, 300), st.integers(0, 300))
def test_causal_pairs_are_the_sum_over_positions(new: int, past: int, window: int) -> None:
    positions = np.arange(past + 1, past + new + 1)
    expected = positions.sum() if window == 0 else np.minimum(positions, window).sum()
    assert op.causal_pairs(new, past, window) == pytest.approx(expected)


def test_windows_broadcast_with_full_layers() -> None:
    c = curve("h200-sxm", "vllm", "prefill_attention")
    both = op.prefill_attention(c, 1, 4096, 1024, 32, 8, 128, np.array([0, 128]))
    assert both[0] == op.prefill_attention(c, 1, 4096, 1024, 32, 8, 128)
    assert both[1] == op.prefill_attention(c, 1, 4096, 1024, 32, 8, 128, 128)
    assert both[1] < both[0]


@given(st.integers(1, 100_000), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 16, 64]))
def test_rank_load_is_conserved_over_ranks(tokens: int, topk: int, ep: int) -> None:
    pairs, touched = op.rank_load(tokens, topk, 64, ep)
    assert pairs * ep == pytest.approx(tokens * topk)
    assert touched * ep <= 64 * (1 + 1e-9)
    assert touched <= pairs * (1 + 1e-9)


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3))
def test_smooth_max_lies_between_maximum_and_sum(a: float, b: float) -> None:
    for exponent in (1, 2, 4, np.inf):
        value = op.smooth_max(a, b, exponent)
        assert max(a, b) * (1 - 1e-12) <= value <= (a + b) * (1 + 1e-12)
    with pytest.raises(ValueError, match="exponent"):
        op.smooth_max(a, b, 3)


def test_scalars_and_arrays_take_the_same_path() -> None:
    c = curve("h200-sxm", "vllm", "gemm")
    m = np.array([1.0, 64.0, 4096.0])
    assert op.gemm(c, m, 4096, 4096).tolist() == [float(op.gemm(c, x, 4096, 4096)) for x in m]
