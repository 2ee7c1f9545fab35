"""Work behind the terms of a step: it is the model's own FLOPs and bytes, and it divides over ranks."""

import numpy as np
import pytest

from planner.catalog import catalog
from planner.hardware.curves import curves
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.model.flops import attention_flops, linear_flops_per_token
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import step_coefficients, unit_coefficients
from planner.roofline.intensity import step_work
from planner.roofline.program import program
from planner.roofline.step import StepContext, StepWork, step_times

OFF = np.array([False])


def context(model):
    spec = catalog().model(model)
    here = device(catalog().accelerator("h200-sxm"))
    plan = PrecisionPlan.from_checkpoint(spec)
    return spec, StepContext(program(spec), plan, curves(here, "sglang"), unit_coefficients(), 8, 0.0)


def work_of(model, layouts, work, two_batch=OFF):
    spec, ctx = context(model)
    return step_work(spec, ctx, layouts, work, two_batch)


@pytest.mark.parametrize("model", ["deepseek-v3", "llama-3.3-70b", "gpt-oss-120b"])
def test_one_gpu_does_the_models_own_flops(model):
    spec, _ctx = context(model)
    seqs, cached = 16.0, 1000.0
    found = work_of(model, Layouts.of(), StepWork(np.array([seqs]), np.array([cached])))
    linear = sum(linear_flops_per_token(spec).values()) * seqs
    matrices = sum(float(w.flops[0]) for name, w in found.items() if name != "attention_core")
    assert matrices == pytest.approx(linear, rel=1e-6)
    cores = float(attention_flops(spec, 1, cached, "decode")) * seqs
    assert float(found["attention_core"].flops[0]) == pytest.approx(cores)


def test_tensor_parallel_ranks_share_the_work():
    work = StepWork(np.array([32.0]), np.array([2000.0]))
    one = work_of("llama-3.3-70b", Layouts.of(), work)
    eight = work_of("llama-3.3-70b", Layouts.of(tp=8), work)
    for term in ("attention_projections", "dense_mlp", "attention_core"):
        assert float(eight[term].flops[0]) == pytest.approx(float(one[term].flops[0]) / 8, rel=1e-6)
        assert float(eight[term].bytes[0]) < float(one[term].bytes[0])


def test_a_larger_batch_does_more_per_byte():
    small, large = (
        work_of("deepseek-v3", Layouts.of(tp=8), StepWork(np.array([b]), np.array([1000.0]))) for b in (1.0, 64.0)
    )
    for term in ("attention_projections", "routed_experts", "shared_experts"):
        assert float(large[term].intensity[0]) > float(small[term].intensity[0])


def test_two_micro_batches_read_the_weights_twice():
    work = StepWork(np.array([128.0]), np.array([1000.0]))
    layouts = Layouts.of(tp=1, attention_dp=8, ep=8)
    once = work_of("deepseek-v3", layouts, work)["shared_experts"]
    twice = work_of("deepseek-v3", layouts, work, np.array([True]))["shared_experts"]
    assert float(twice.flops[0]) == pytest.approx(float(once.flops[0]))
    assert float(twice.bytes[0]) > 1.5 * float(once.bytes[0])


def test_no_more_is_moved_than_the_time_has_room_for():
    """Where a step takes no longer than its weights' stream, activations stay in the cache; weights never do."""
    spec, ctx = context("deepseek-v3")
    layouts, work = Layouts.of(tp=8), StepWork(np.array([64.0]), np.array([1000.0]))
    bandwidth = ctx.curves.device.mem_bw
    for one in step_work(spec, ctx, layouts, work, OFF).values():
        weights = one.bytes - one.activations
        assert one.bytes_within(1e-12, bandwidth) == pytest.approx(weights)
        assert one.bytes_within(1e3, bandwidth) == pytest.approx(one.bytes)
        between = (weights + 0.5 * one.activations) / bandwidth
        assert one.bytes_within(between, bandwidth) == pytest.approx(weights + 0.5 * one.activations)


def test_a_step_at_the_stream_of_its_weights_stays_under_the_roof():
    """vLLM's calibrated factor on H100 takes these experts to their floor, which has no room for activations."""
    spec, here = catalog().model("qwen3-235b-a22b"), device(catalog().accelerator("h100-sxm"))
    plan = PrecisionPlan.from_checkpoint(spec)
    ctx = StepContext(program(spec), plan, curves(here, "vllm"), step_coefficients("vllm", here.generation), 8, 0.0)
    layouts, work = Layouts.of(tp=8, pp=2), StepWork(np.array([109.0]), np.array([3300.0]))
    took = step_times(ctx, layouts, work, OFF, OFF).exposed
    found = step_work(spec, ctx, layouts, work, OFF)
    experts = found["routed_experts"]
    assert experts.bytes > took["routed_experts"] * here.mem_bw
    for name in ("routed_experts", "attention_projections", "head"):
        assert found[name].bytes_within(took[name], here.mem_bw) <= took[name] * here.mem_bw * (1.0 + 1e-9)
