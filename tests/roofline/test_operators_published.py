"""Operator times against figures published by others, none of which were fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.hardware.curves import CurveSet, curves
from planner.hardware.device import device
from planner.roofline import operators as op

if TYPE_CHECKING:
    from planner.catalog import Catalog


def curve_set(cat: Catalog, accelerator: str, engine: str = "sglang") -> CurveSet:
    return curves(device(cat.accelerator(accelerator)), engine)


# DeepEP docs/legacy.md, H800 with ConnectX-7: 128 tokens, hidden 7168, top-8, fp8 dispatch and bf16 combine, in µs.
DEEPEP_LOW_LATENCY_US = {8: (77, 114), 16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}


@pytest.mark.parametrize("ep", DEEPEP_LOW_LATENCY_US)
def test_deepep_low_latency_on_h800(cat: Catalog, ep: int) -> None:
    known = curve_set(cat, "h800-sxm")
    dispatch, combine = DEEPEP_LOW_LATENCY_US[ep]
    got_d = op.deepep_ll_dispatch(known.get("deepep_ll_dispatch", "fp8"), 128, 7168, 8, ep) * 1e6
    got_c = op.deepep_ll_combine(known.get("deepep_ll_combine", "bf16"), 128, 7168, 8, ep) * 1e6
    assert got_d == pytest.approx(dispatch, rel=0.2)
    assert got_c == pytest.approx(combine, rel=0.3)


@pytest.mark.parametrize(
    ("accelerator", "tflops", "source_percent"), [("h100-sxm", 794.5, 80), ("h200-sxm", 794.5, 80)]
)
def test_large_gemm_does_not_exceed_the_best_measured_matmul(
    cat: Catalog, accelerator: str, tflops: float, source_percent: int
) -> None:
    """Maximum achievable matmul FLOP/s over shapes (stas00/ml-engineering, compute/accelerator)."""
    curve = curve_set(cat, accelerator, "vllm").get("gemm", "bf16")
    reached = 2 * 8192**3 / op.gemm(curve, 8192, 8192, 8192) / 1e12
    assert 0.8 * tflops < reached < 1.05 * tflops


def test_long_prefill_stays_below_flash_attention_3(cat: Catalog) -> None:
    """FlashAttention-3 reaches at most 740 TFLOP/s of bf16 on H100 (arXiv 2407.08608, abstract)."""
    curve = curve_set(cat, "h100-sxm", "sglang").get("prefill_attention", "bf16")
    flops = 4 * 32 * 128 * 16384 * 16385 / 2
    assert 0.55 * 740 < flops / op.prefill_attention(curve, 1, 16384, 0, 32, 8, 128) / 1e12 < 1.05 * 740


def test_ring_bandwidth_of_large_all_gather_on_h200(cat: Catalog) -> None:
    """nccl-tests on H200: all-gather 361.4 GB/s of bus bandwidth over 8 GPUs (stas00/ml-engineering, network)."""
    curve = curve_set(cat, "h200-sxm").get("all_gather", "bf16")
    size = 2.0**32
    assert size * 7 / 8 / op.all_gather(curve, size, 8) / 1e9 == pytest.approx(361.4, rel=0.12)


def test_multicast_all_reduce_on_h200(cat: Catalog) -> None:
    """nccl-tests on H200: 473-482 GB/s of bus bandwidth with NVLS over 8 GPUs (stas00/ml-engineering, network)."""
    curve = curve_set(cat, "h200-sxm").get("all_reduce_nccl", "bf16")
    size = 2.0**34
    assert size * 2 * 7 / 8 / op.all_reduce(curve, size, 8) / 1e9 == pytest.approx(480, rel=0.12)


def test_all_reduce_over_four_b200_nodes(cat: Catalog) -> None:
    """32 B200 on 4 nodes with 8 x 400 Gb/s each: 382 GB/s of bus bandwidth at 16 GiB (stas00/ml-engineering)."""
    curve = curve_set(cat, "b200-sxm").get("all_reduce_nccl", "bf16")
    size = 2.0**34
    assert size * 2 * 31 / 32 / op.all_reduce(curve, size, 32, 8) / 1e9 == pytest.approx(382, rel=0.1)


def test_h800_link_reaches_what_deepseek_measured(cat: Catalog) -> None:
    """160 GB/s of 200 between two H800 (deepseek-ai/DeepSeek-V3 issue 28)."""
    curve = curve_set(cat, "h800-sxm").get("send", "bf16")
    assert 2.0**30 / op.send(curve, 2.0**30) / 1e9 == pytest.approx(160, rel=0.2)


def test_decode_of_128_mla_heads_is_compute_bound_on_hopper(cat: Catalog) -> None:
    """H100 and H200 take the same time though their memory differs by 43 % (measured/README.md)."""
    times = [
        op.decode_mla(curve_set(cat, gpu, "trtllm").get("decode_mla", "bf16"), 64, 8192, 128)
        for gpu in ("h100-sxm", "h200-sxm")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.1)


def test_decode_of_a_small_cache_is_far_from_the_memory_bandwidth(cat: Catalog) -> None:
    """GQA decode on H200: under 15 % of HBM below 16 MB of cache, 86-88 % at 1 to 4 GB (measured/README.md)."""
    curve = curve_set(cat, "h200-sxm", "vllm").get("decode_attention", "bf16")

    def share(batch: int, tokens: int) -> float:
        size = batch * tokens * 8 * 128 * 2 * 2.0
        return float(size / curve.mem_bw / op.decode_attention(curve, batch, tokens, 32, 8, 128))

    assert share(4, 512) < 0.15
    assert share(128, 4096) > 0.8


KIB = 1024.0
TWO_NODES = {
    "h100-sxm": ("nebius", {1: 31.3, 4: 39.6, 16: 35.9, 64: 37.7, 128: 48.0, 256: 61.0, 1024: 82.5, 4096: 112.4}),
    "b200-sxm": ("lambda", {1: 41.7, 4: 39.6, 16: 42.8, 64: 44.2, 128: 47.1, 256: 66.0, 1024: 115.5, 4096: 117.7}),
    "a100-80g-sxm": ("crusoe", {1: 32.4, 4: 35.6, 16: 42.2, 64: 50.2, 128: 50.6, 512: 68.7, 1024: 85.1, 4096: 127.6}),
}
"""all_reduce_perf of 16 GPUs on 2 InfiniBand nodes (dstackai/dstack, examples/clusters/<cloud>/README.md): KiB -> µs,
mean of out of place and in place. The accelerators of the first two are not named; bandwidths are those of these."""


@pytest.mark.parametrize("gpu", TWO_NODES)
def test_all_reduce_over_two_nodes(cat: Catalog, gpu: str) -> None:
    """From one decode token to a batch of hundreds: 30 to 130 µs, the coefficients are fitted to these."""
    curve = curve_set(cat, gpu).get("all_reduce_nccl", "bf16")
    sizes, measured = zip(*TWO_NODES[gpu][1].items(), strict=True)
    found = op.all_reduce(curve, KIB * np.array(sizes), 16, 8) * 1e6
    ratio = found / np.array(measured)
    assert np.median(np.abs(ratio - 1)) < 0.15
    assert np.all(np.abs(np.log(ratio)) < np.log(1.3))


def test_small_all_reduce_over_four_nodes(cat: Catalog) -> None:
    """32 ranks on 4 nodes, not fitted: 69 µs for 32 KiB, 98 for 256 (measured/published/ops.yaml mle_ar_4node_*)."""
    curve = curve_set(cat, "h100-sxm").get("all_reduce_nccl", "bf16")
    found = op.all_reduce(curve, KIB * np.array([32.0, 64.0, 128.0, 256.0, 512.0]), 32, 8) * 1e6
    busbw = np.array([0.92, 1.61, 3.05, 5.18, 9.17])
    measured = KIB * np.array([32.0, 64.0, 128.0, 256.0, 512.0]) * 2 * 31 / 32 / busbw / 1e3
    assert found == pytest.approx(measured, rel=0.25)


# vllm-project.github.io _posts/2026-07-06-vllm-hpc-ops.md, one H20 of 8 at TP8: Triton's fused experts of Hy3-FP8 in µs
# by tokens. 192 experts, top-8, hidden 4096 (model card of tencent/Hy3-preview); width 1536 is what 295 B in all leave.
H20_TRITON_EXPERTS_US = {4: 56.4, 16: 124.2, 64: 374.9, 256: 310.9, 1024: 652.7, 4096: 1366.0, 16384: 4329.1}


def test_experts_on_h20(cat: Catalog) -> None:
    """Measured on no H20: H200's Triton kernel carried to a seventh of the tensor cores."""
    curve = curve_set(cat, "h20-96g").get("moe", "fp8_block")
    tokens = np.array(list(H20_TRITON_EXPERTS_US), dtype=float)
    measured = np.array(list(H20_TRITON_EXPERTS_US.values()))
    ratio = 1e6 * op.grouped_gemm(curve, tokens, 4096, 1536, 8, 192, 8, 1) / measured
    assert np.median(np.abs(np.log(ratio))) < 0.15
    assert ratio[tokens >= 1024] == pytest.approx(1.0, abs=0.15)
    donor = curve_set(cat, "h200-sxm").get("moe", "fp8_block")
    same_part = replace(curve, coefficients=donor.coefficients)
    before = 1e6 * op.grouped_gemm(same_part, tokens, 4096, 1536, 8, 192, 8, 1) / measured
    assert np.all(before > 1.7), "as a part of H20's own peak"
