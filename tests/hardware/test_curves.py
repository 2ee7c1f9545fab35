"""Which curve answers for which device, engine and data type; every substitution is marked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.errors import InputError, UnknownNameError
from planner.evidence.ops_samples import samples
from planner.hardware.curves import Curve, CurveSet, carried_efficiency, curves, fallback_rules
from planner.hardware.device import device
from planner.roofline import operators
from planner.roofline.operators import gemm

if TYPE_CHECKING:
    from planner.catalog import Catalog


def curve_set(cat: Catalog, accelerator: str, engine: str) -> CurveSet:
    return curves(device(cat.accelerator(accelerator)), engine)


def get(cat: Catalog, accelerator: str, engine: str, op: str, dtype: str) -> Curve:
    return curve_set(cat, accelerator, engine).get(op, dtype)


def test_a_measured_curve_is_not_marked(cat: Catalog) -> None:
    curve = get(cat, "h200-sxm", "sglang", "gemm", "fp8_block")
    assert (curve.from_accelerator, curve.engine, curve.dtype) == ("h200-sxm", "sglang", "fp8_block")
    assert not curve.extrapolated
    assert curve.note == ""
    assert curve.status == "measured"
    assert curve.points > 500
    assert "AIConfigurator" in curve.source


@pytest.mark.parametrize(
    ("accelerator", "donor"),
    [
        ("h800-sxm", "h100-sxm"),
        ("h20-96g", "h200-sxm"),
        ("gh200", "h200-sxm"),
        ("a800-80g-sxm", "a100-80g-sxm"),
        ("a10", "a100-80g-sxm"),
        ("l4", "l40s"),
        ("rtx-4090", "l40s"),
        ("b300-sxm", "b200-sxm"),
        ("gb300-nvl72", "gb200-nvl72"),
        ("mi300x", "h200-sxm"),
        ("mi355x", "b200-sxm"),
        ("gaudi3", "h200-sxm"),
    ],
)
def test_an_accelerator_without_data_borrows_a_curve_marked_and_wider(
    cat: Catalog, accelerator: str, donor: str
) -> None:
    borrowed = get(cat, accelerator, "vllm", "gemm", "bf16")
    own = get(cat, donor, "vllm", "gemm", "bf16")
    assert borrowed.from_accelerator == donor
    assert borrowed.extrapolated
    assert accelerator in borrowed.note
    assert donor in borrowed.note
    assert borrowed.status == "assumed"
    assert borrowed.spread > own.spread
    assert {**borrowed.coefficients, "compute_efficiency": own["compute_efficiency"]} == own.coefficients
    assert borrowed.peak_flops == device(cat.accelerator(accelerator)).peak("bf16")


def test_another_vendor_is_marked_more_strongly_than_the_same_die(cat: Catalog) -> None:
    near = get(cat, "h800-sxm", "vllm", "gemm", "bf16")
    far = get(cat, "mi300x", "vllm", "gemm", "bf16")
    assert far.spread > 2 * near.spread


def test_another_engines_curve_is_marked(cat: Catalog) -> None:
    curve = get(cat, "gb200-nvl72", "vllm", "gemm", "fp8_block")
    assert curve.engine != "vllm"
    assert "vllm was not measured" in curve.note


def test_another_data_type_is_marked_and_keeps_its_bytes(cat: Catalog) -> None:
    curve = get(cat, "h100-sxm", "vllm", "gemm", "nvfp4")
    assert curve.extrapolated
    assert curve.weight_bytes == 0.5625
    assert curve.peak_flops == device(cat.accelerator("h100-sxm")).peak("bf16")


def test_a_device_without_the_narrow_peak_computes_in_16_bits_and_says_so(cat: Catalog) -> None:
    curve = get(cat, "a30", "vllm", "prefill_attention", "fp8")
    assert curve.peak_flops == device(cat.accelerator("a30")).peak("bf16")
    assert curve.extrapolated


def test_library_kernels_serve_every_engine_unmarked(cat: Catalog) -> None:
    for engine in ("sglang", "vllm", "trtllm"):
        assert not get(cat, "h200-sxm", engine, "deepep_ll_dispatch", "fp8").extrapolated
        assert not get(cat, "h200-sxm", engine, "all_gather", "bf16").extrapolated


def test_an_fp8_cache_is_read_in_the_engines_own_math(cat: Catalog) -> None:
    for engine, curve_type in (("sglang", "fp8"), ("trtllm", "fp8"), ("vllm", "fp8kv")):
        curve = get(cat, "h200-sxm", engine, "prefill_attention", "fp8")
        assert (curve.engine, curve.dtype, curve.extrapolated) == (engine, curve_type, False)


def test_a_16_bit_dispatch_moves_its_own_bytes_and_is_marked(cat: Catalog) -> None:
    narrow = get(cat, "h200-sxm", "sglang", "deepep_ll_dispatch", "fp8_block")
    wide = get(cat, "h200-sxm", "sglang", "deepep_ll_dispatch", "bf16")
    assert (narrow.activation_bytes, wide.activation_bytes) == (1.03125, 2.0)
    assert wide.extrapolated
    assert wide.spread > narrow.spread


def test_collectives_over_pcie_use_the_pcie_curve(cat: Catalog) -> None:
    curve = get(cat, "h100-pcie", "vllm", "all_reduce", "bf16")
    assert curve.from_accelerator == "l40s"
    assert curve["contention"] > 0
    assert curve.link_bw == 64e9


def test_unknown_names_say_the_nearest(cat: Catalog) -> None:
    known = curve_set(cat, "h200-sxm", "sglang")
    with pytest.raises(UnknownNameError, match="gemm"):
        known.get("gem", "bf16")
    with pytest.raises(UnknownNameError, match="fp8_block"):
        known.get("gemm", "fp8_blok")
    with pytest.raises(UnknownNameError, match="vllm"):
        curve_set(cat, "h200-sxm", "vlm")


def test_what_nobody_measured_is_refused(cat: Catalog) -> None:
    with pytest.raises(InputError, match="no measured curve"):
        get(cat, "a100-80g-pcie", "sglang", "deepep_ll_dispatch", "bf16")


def test_used_curves_can_be_listed(cat: Catalog) -> None:
    known = curve_set(cat, "h800-sxm", "sglang")
    known.get("gemm", "bf16")
    known.get("decode_mla", "fp8")
    assert {c.op for c in known.used()} == {"gemm", "decode_mla"}


def test_every_engine_and_dense_type_resolves_everywhere(cat: Catalog) -> None:
    rules = fallback_rules()
    for name in cat.accelerator_ids():
        try:
            here = device(cat.accelerator(name))
        except InputError:
            continue
        for engine in rules["engines"]:
            known = curves(here, engine)
            for op in ("gemm", "prefill_attention", "decode_attention", "prefill_mla", "decode_mla", "mla_bmm", "moe"):
                for dtype in rules["types"][rules["classes"][op]["types"]]:
                    curve = known.get(op, dtype)
                    assert curve.extrapolated == bool(curve.note)


def test_peaks_scale_out_of_the_coefficients(cat: Catalog) -> None:
    own = get(cat, "h200-sxm", "vllm", "gemm", "bf16")
    m = np.array([16384.0])
    assert gemm(own, m, 8192, 8192)[0] > 2 * 16384 * 8192 * 8192 / own.peak_flops


def test_a_board_with_4_bit_tensor_cores_borrows_a_4_bit_curve(cat: Catalog) -> None:
    board = curves(device(cat.accelerator("rtx-pro-6000-server")), "trtllm")
    narrow, wide = board.get("gemm", "nvfp4"), board.get("gemm", "bf16")
    assert (narrow.dtype, narrow.from_accelerator) == ("nvfp4", "b200-sxm")
    assert narrow.extrapolated
    assert "curve of b200-sxm" in narrow.note
    assert (wide.dtype, wide.from_accelerator) == ("bf16", "l40s")
    # Where the device computes in 16 bits anyway, the nearer neighbour with 16-bit math stays.
    assert curves(device(cat.accelerator("a10")), "vllm").get("gemm", "fp8").from_accelerator == "a100-80g-sxm"


@pytest.mark.parametrize("accelerator", ["h100-sxm", "h200-sxm"])
def test_measurements_that_were_left_out_are_told_and_widen(cat: Catalog, accelerator: str) -> None:
    curve = get(cat, accelerator, "vllm", "moe", "fp8")
    own = get(cat, accelerator, curve.engine, "moe", "fp8")
    assert curve.engine != "vllm"
    assert "vllm was measured here but left out (over 1.5 times" in curve.note
    assert "not measured" not in curve.note
    assert curve.beyond_runs
    assert not own.beyond_runs
    rules = fallback_rules()
    assert curve.spread == pytest.approx(own.spread * rules["engine_spread_factor"] * rules["left_out_spread_factor"])


def test_efficiency_is_time_beside_the_tensor_cores() -> None:
    h200, h20 = (1979.0, 67.0), (296.0, 44.0)
    assert carried_efficiency(0.35, h200, h200) == pytest.approx(0.35)
    assert carried_efficiency(0.35, h200, (h200[0] / 2, h200[1] / 2)) == pytest.approx(0.35), "half the chip"
    assert carried_efficiency(1.0, h200, h20) == 1.0
    excess = 1 / (0.35 * h200[0]) - 1 / h200[0]
    there = carried_efficiency(0.35, h200, h20)
    assert 1 / (there * h20[0]) - 1 / h20[0] == pytest.approx(excess * h200[1] / h20[1])


def test_a_card_with_few_tensor_cores_is_not_held_to_what_others_reach_of_theirs(cat: Catalog) -> None:
    measured, h20 = (get(cat, name, "sglang", "moe", "fp8_block") for name in ("h200-sxm", "h20-96g"))
    assert h20.from_accelerator == "h200-sxm"
    assert h20["compute_efficiency"] > 1.5 * measured["compute_efficiency"]
    for name, value in measured.coefficients.items():
        assert name == "compute_efficiency" or h20[name] == value
    h800 = get(cat, "h800-sxm", "sglang", "moe", "fp8_block")
    assert h800["compute_efficiency"] == get(cat, "h100-sxm", "sglang", "moe", "fp8_block")["compute_efficiency"]


@pytest.mark.parametrize("op", ["gemm", "moe", "mla_bmm"])
def test_time_beside_the_tensor_cores_carries_better_than_a_part_of_their_peak(op: str, cat: Catalog) -> None:
    """H100's rows by B200's curves: fewer tensor FLOPs beside the same vector units, as on an H20."""
    here, there = (device(cat.accelerator(name)) for name in ("h100-sxm", "b200-sxm"))
    errors: dict[bool, list[float]] = {False: [], True: []}
    for sample in samples(Path(__file__).resolve().parents[2] / "measured", op):
        if sample.gpu != here.id:
            continue
        donor = get(cat, there.id, sample.engine, op, sample.dtype)
        compute = "bf16" if sample.dtype == "bf16" else "fp8"
        if (donor.engine, donor.dtype) != (sample.engine, sample.dtype) or not donor.dtype.startswith(("bf16", "fp8")):
            continue
        assert here.vector_flops
        assert there.vector_flops
        carried = carried_efficiency(
            donor["compute_efficiency"],
            (there.peak(compute), there.vector_flops),
            (here.peak(compute), here.vector_flops),
        )
        for changed in (False, True):
            coefficients = dict(donor.coefficients) | ({"compute_efficiency": carried} if changed else {})
            peaks = {"peak_flops": here.peak(compute), "mem_bw": here.mem_bw}
            curve = replace(donor, coefficients=coefficients, **peaks)
            times = getattr(operators, curve.form)(curve, **sample.inputs)
            errors[changed] += np.abs(times / sample.seconds - 1.0).tolist()
    assert len(errors[True]) > 1000
    assert np.median(errors[True]) < np.median(errors[False])
    assert np.quantile(errors[True], 0.9) < 1.01 * np.quantile(errors[False], 0.9)
