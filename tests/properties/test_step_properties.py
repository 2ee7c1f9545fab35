"""Laws that a whole step obeys, whatever the model, the accelerator and the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.hardware.curves import Curve, CurveSet, curves
from planner.hardware.device import Device, device
from planner.layout.layouts import Layouts
from planner.model.flops import attention_flops, linear_flops_per_token
from planner.model.precision import FORMATS, PrecisionPlan
from planner.roofline.coefficients import StepCoefficients, step_coefficients
from planner.roofline.program import program
from planner.roofline.step import StepContext, StepWork, step_times

MODELS = ("deepseek-v3", "qwen3-32b", "llama-3.3-70b", "gpt-oss-120b", "qwen3-next-80b-a3b")
NODES = ("dgx-h100", "dgx-h200", "dgx-b200", "hgx-h800")
LAYOUTS = ({"tp": 8}, {"tp": 1, "attention_dp": 8, "ep": 8, "moe_tp": 1}, {"tp": 4, "pp": 2}, {"tp": 1})
DOMAIN = 8


class Scaled(CurveSet):
    """Curves without any fixed latency: only what the peaks bound is left."""

    def get(self, op: str, dtype: str) -> Curve:
        curve = super().get(op, dtype)
        return replace(curve, coefficients={k: 0.0 if _is_time(k) else v for k, v in curve.coefficients.items()})


def _is_time(name: str) -> bool:
    return name.endswith("_s") or "_s_per_" in name


@cache
def _device(node: str) -> Device:
    known = catalog().node(node)
    return device(catalog().accelerator(known.accelerator), known)


def _context(model: str, node: str, *, factor: float = 1.0, latency: bool = True) -> StepContext:
    here = _device(node)
    fast = replace(
        here,
        peak_flops={k: v * factor for k, v in here.peak_flops.items()},
        mem_bw=here.mem_bw * factor,
        link_bw=None if here.link_bw is None else here.link_bw * factor,
        nic_bw=None if here.nic_bw is None else here.nic_bw * factor,
        pcie_bw=None if here.pcie_bw is None else here.pcie_bw * factor,
        vector_flops=None if here.vector_flops is None else here.vector_flops * factor,
    )
    spec = catalog().model(model)
    found = curves(fast, "sglang")
    return StepContext(
        program=program(spec),
        precision=PrecisionPlan.from_checkpoint(spec),
        curves=found if latency else Scaled(fast, "sglang", found._directory),
        coefficients=step_coefficients("sglang", here.generation) if latency else _no_latency(here.generation),
        domain=DOMAIN,
        expert_skew=0.5,
    )


def _no_latency(generation: str) -> StepCoefficients:
    given_ = step_coefficients("sglang", generation)
    zeros: Mapping[str, float] = {n: 0.0 for n in vars(given_) if n.endswith("_s")}
    return replace(given_, **zeros)


def _work(seqs: float, kv: float, prefill: float) -> StepWork:
    def one(value: float) -> np.ndarray:
        return np.array([value])

    if not prefill:
        return StepWork(one(seqs), one(kv))
    return StepWork(one(seqs), one(kv), one(prefill), one(1.0), one(0.0), one(prefill))


def _total(ctx: StepContext, layout: dict[str, int], work: StepWork, *, overlap: bool = False) -> float:
    layouts = Layouts.of(**layout)
    yes, no = np.ones(1, dtype=bool), np.zeros(1, dtype=bool)
    direct = yes if overlap else no
    return float(step_times(ctx, layouts, work, direct, direct).total[0])


CASES = st.tuples(st.sampled_from(MODELS), st.sampled_from(NODES), st.sampled_from(LAYOUTS))
SEQS = st.floats(1.0, 512.0)
KV = st.floats(1.0, 30_000.0)
PREFILL = st.sampled_from([0.0, 256.0, 4096.0])


@settings(max_examples=60, deadline=None)
@given(CASES, SEQS, KV, PREFILL, st.floats(1.1, 8.0))
def test_scaling_all_peaks_scales_the_time(
    case: tuple[str, str, dict[str, int]], seqs: float, kv: float, prefill: float, factor: float
) -> None:
    model, node, layout = case
    work = _work(seqs, kv, prefill)
    slow = _total(_context(model, node, latency=False), layout, work)
    fast = _total(_context(model, node, factor=factor, latency=False), layout, work)
    assert fast * factor == pytest.approx(slow, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(CASES, SEQS, KV, PREFILL, st.floats(1.1, 8.0))
def test_faster_hardware_is_never_slower(
    case: tuple[str, str, dict[str, int]], seqs: float, kv: float, prefill: float, factor: float
) -> None:
    model, node, layout = case
    work = _work(seqs, kv, prefill)
    slow = _total(_context(model, node), layout, work)
    fast = _total(_context(model, node, factor=factor), layout, work)
    assert slow / factor <= fast * (1 + 1e-9)
    assert fast <= slow * (1 + 1e-9)


@settings(max_examples=80, deadline=None)
@given(CASES, SEQS, KV, PREFILL)
def test_no_step_beats_the_roofline(
    case: tuple[str, str, dict[str, int]], seqs: float, kv: float, prefill: float
) -> None:
    """FLOPs of all tokens over the peaks of all GPUs is a floor; so are cache bytes over the memory bandwidth."""
    model, node, layout = case
    spec, ctx, here = catalog().model(model), _context(model, node), _device(node)
    layouts = Layouts.of(**layout)
    gpus, dp = float(layouts.gpus[0]), float(layouts.attention_dp[0])
    tokens = seqs * dp + prefill
    dense = {k: v for k, v in linear_flops_per_token(spec).items() if k not in ("head", "embedding")}
    plan = ctx.precision
    peaks = {k: _peak(here, getattr(plan, k)) for k in dense}
    compute = sum(tokens * flops / peaks[k] for k, flops in dense.items()) / gpus
    compute += dp * seqs * float(attention_flops(spec, 1, max(kv - 1, 0), "decode")) / gpus / _peak(here, "fp8_tensor")
    total = _total(ctx, layout, _work(seqs, kv, prefill))
    coefficients = ctx.coefficients
    best = min(*coefficients.decode_factors, *coefficients.prefill_factors, 1.0)
    assert total >= compute * best * (1 - 1e-9)


def _peak(here: Device, fmt: str) -> float:
    """The fastest that the device computes operands of a format, or of a wider one."""
    kind = FORMATS[fmt].compute
    return max(v for k, v in here.peak_flops.items() if k == kind or (kind == "fp4" and k == "fp8") or k == "bf16")


@settings(max_examples=60, deadline=None)
@given(CASES, SEQS, KV, PREFILL, st.floats(1.0, 4.0), st.floats(1.0, 4.0))
def test_more_work_never_takes_less_time(
    case: tuple[str, str, dict[str, int]], seqs: float, kv: float, prefill: float, batch: float, context: float
) -> None:
    model, node, layout = case
    ctx = _context(model, node)
    small = _total(ctx, layout, _work(seqs, kv, prefill))
    large = _total(ctx, layout, _work(seqs * batch, kv * context, prefill))
    # More tokens even out the ranks' expert loads, which may save more than a few tokens cost.
    assert large >= small * (0.999 if ctx.program.moes else 1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NODES), SEQS, KV)
def test_exposed_terms_add_up_and_nothing_is_negative(node: str, seqs: float, kv: float) -> None:
    ctx = _context("deepseek-v3", node)
    layout = Layouts.of(tp=1, attention_dp=8, ep=8)
    for flags in (np.zeros(1, dtype=bool), np.ones(1, dtype=bool)):
        times = step_times(ctx, layout, _work(seqs, kv, 0.0), flags, np.ones(1, dtype=bool))
        assert float(times.total[0]) == pytest.approx(sum(float(v[0]) for v in times.exposed.values()))
        assert all(float(v[0]) >= 0 for v in (*times.exposed.values(), *times.hidden.values()))
