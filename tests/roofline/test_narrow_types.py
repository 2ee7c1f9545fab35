"""Fewer bits a weight do not make a step slower by more than the measured kernels of the narrow type are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from planner.catalog import catalog
from planner.hardware.curves import curves
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import step_coefficients, unit_coefficients
from planner.roofline.program import program
from planner.roofline.step import StepContext, StepWork, step_times

Array = np.ndarray

TOLERANCE = 1.4
"""Beside what the curves say: two standard deviations of the difference of two types' calibrated factors (0.12 each in
the logarithm, e2e_prior.yaml): exp(2 x 0.12 x sqrt 2) = 1.4."""
PER_TENSOR = 1.15
"""Floors of narrow kernels and the pass that quantises their inputs, in steps that are short anyway."""
WIDE = {"attention": "bf16", "dense_mlp": "bf16", "shared_experts": "bf16", "routed_experts": "bf16", "kv": "bf16"}
LINEAR = ("attention", "dense_mlp", "shared_experts")
LINEAR_TERMS = ("attention_projections", "dense_mlp", "shared_experts")
DECODE = StepWork(np.array([1.0, 8.0, 64.0, 256.0]), np.full(4, 1500.0))
PROMPT_TOKENS = np.array([256.0, 2048.0, 8192.0, 16_384.0])
PREFILL = StepWork(
    np.zeros(4), np.zeros(4), PROMPT_TOKENS, np.maximum(PROMPT_TOKENS / 2048.0, 1.0), np.zeros(4), PROMPT_TOKENS
)
MODELS = {"mixtral-8x7b": 2, "qwen3-235b-a22b": 4, "deepseek-v3": 8, "llama-3.1-70b": 4}


@cache
def _seconds(
    model: str, gpu: str, engine: str, where: str, number_format: str, calibrated: bool
) -> tuple[tuple[Array, Array], ...]:
    """(whole step, part with these weights) of decode and prefill steps, with ``number_format`` in routed experts or
    linear layers and the rest in 16 bits.
    """
    spec, accelerator = catalog().model(model), catalog().accelerator(gpu)
    narrow = dict.fromkeys(("routed_experts",) if where == "experts" else LINEAR, number_format)
    ctx = StepContext(
        program(spec),
        PrecisionPlan.from_checkpoint(spec).with_overrides(WIDE | narrow),
        curves(device(accelerator), engine),
        step_coefficients(engine, accelerator.arch) if calibrated else unit_coefficients(),
        8,
        1.36,
    )
    no = np.zeros(4, dtype=bool)
    layouts = Layouts.of(tp=np.full(4, MODELS[model]))
    terms = ("routed_experts",) if where == "experts" else LINEAR_TERMS
    times = [step_times(ctx, layouts, work, no, no) for work in (DECODE, PREFILL)]
    return tuple((t.total, np.asarray(sum(t.exposed[name] for name in terms))) for t in times)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-pro-6000-server"])
def test_half_the_bits_are_not_slower_than_the_measured_kernels(gpu: str, engine: str) -> None:
    native = device(catalog().accelerator(gpu)).peak_flops
    types = ["fp8_channel", "fp8_block", *(["nvfp4"] if "fp4" in native else [])]
    for model in MODELS:
        for where in ("experts", "linear"):
            if where == "experts" and not program(catalog().model(model)).moes:
                continue
            for narrow in types:
                for phase in (0, 1):
                    (wide, part), (slim, _) = (
                        _seconds(model, gpu, engine, where, f, True)[phase] for f in ("bf16", narrow)
                    )
                    raw = [_seconds(model, gpu, engine, where, f, False)[phase][1] for f in ("bf16", narrow)]
                    allowed = np.maximum(raw[1] / raw[0], 1.0) * TOLERANCE
                    # The rest of the step is the same; launches that outlast the kernels only even out.
                    assert np.all(slim <= wide + (allowed - 1.0) * part), (model, where, narrow, phase, slim / wide)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200-sxm", "l40s"])
@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3"])
def test_per_tensor_fp8_experts_are_faster_where_weights_are_streamed(gpu: str, engine: str, model: str) -> None:
    for phase in (0, 1):
        wide, slim = (_seconds(model, gpu, engine, "experts", f, True)[phase][0] for f in ("bf16", "fp8_channel"))
        assert np.all(slim <= wide * PER_TENSOR)
    streamed = [_seconds(model, gpu, engine, "experts", f, True)[0][0][2] for f in ("bf16", "fp8_channel")]
    assert streamed[1] < 0.9 * streamed[0]
