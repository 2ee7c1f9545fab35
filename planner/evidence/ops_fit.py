"""Fit one curve: the operator's own formula, with its coefficients as unknowns, to a sample's rows.

Unknowns are positive and fitted as logarithms; the loss is soft-L1 on the log of predicted over measured time, so that
5 µs and 50 ms weigh alike and odd rows do not. The exponent of the smooth maximum is chosen among 1, 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.evidence.ops_samples import Sample
from planner.hardware.curves import Curve
from planner.hardware.device import Device
from planner.roofline import operators

Array = NDArray[np.float64]
LOSS_SCALE = 0.1
MAX_EVALUATIONS = 200
SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True)
class Unknown:
    """A coefficient: start and bounds, in the unit its name ends with; efficiencies cannot exceed the peak."""

    name: str
    start: float
    low: float
    high: float


@dataclass(frozen=True)
class Form:
    """How a class is fitted: formula, unknowns, what is held fixed, exponents to try ((): the formula has none)."""

    operator: str
    unknowns: tuple[Unknown, ...]
    fixed: Mapping[str, float]
    exponents: tuple[float, ...] = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Fit:
    """A fitted curve: ready coefficients and residuals |predicted / measured − 1| over its rows."""

    sample: Sample
    form: Form
    coefficients: Mapping[str, float]
    predicted: Array

    @property
    def errors(self) -> Array:
        return np.abs(self.predicted / self.sample.seconds - 1.0)

    def residuals(self) -> dict[str, float]:
        """median_ape, p80_ape, p90_ape and bias (median of signed errors), as fractions."""
        signed = self.predicted / self.sample.seconds - 1.0
        return {
            "median_ape": float(np.median(self.errors)),
            "p80_ape": float(np.percentile(self.errors, 80)),
            "p90_ape": float(np.percentile(self.errors, 90)),
            "bias": float(np.median(signed)),
        }


EFFICIENCY = (0.02, 1.0)
COMPUTE = Unknown("compute_efficiency", 0.5, 0.005, 1.0)
BANDWIDTH = Unknown("bandwidth_efficiency", 0.7, *EFFICIENCY)
FLOOR = Unknown("floor_s", 4e-6, 1e-7, 1e-3)
DEPTH_ELEMENT = Unknown("depth_s_per_element", 1e-10, 1e-14, 1e-7)
DEPTH_TOKEN = Unknown("depth_s_per_token", 1e-10, 1e-14, 1e-6)
MOE = (
    FLOOR, COMPUTE, BANDWIDTH, Unknown("padding_rows", 16.0, 0.01, 512.0),
    Unknown("activation_pass_bytes", 2.0, 0.01, 100.0),
)  # fmt: skip
PER_RANK = Unknown("floor_per_rank_s", 1e-6, 1e-9, 1e-4)
RAMP = Unknown("ramp_bytes", 1e6, 1.0, 1e9)
CONTENTION = Unknown("contention", 0.5, 1e-4, 10.0)
CROSS = (Unknown("cross_efficiency", 0.9, 0.05, 1.3), Unknown("cross_floor_s", 5e-6, 1e-7, 1e-4))


def gemm_form(dtype: str, artefact: bool) -> Form:
    """GEMM: 16-bit activations need no quantisation pass; a floor from artefact rows is not believed above 10 µs."""
    quantised = not (dtype == "bf16" or dtype.endswith("_wo"))
    floor = Unknown("floor_s", 4e-6, 1e-7, 1e-5) if artefact else FLOOR
    extra = (Unknown("quantise_bytes", 5.0, 0.01, 60.0),) if quantised else ()
    unknowns = (floor, COMPUTE, BANDWIDTH, DEPTH_ELEMENT, Unknown("padding_rows", 16.0, 0.01, 256.0), *extra)
    return Form("gemm", unknowns, {} if quantised else {"quantise_bytes": 0.0})


def all_reduce_form(shared_bus: bool, multicast: bool, one_shot: bool, cross: Mapping[str, float]) -> Form:
    """All-reduce: ranks on PCIe contend for the bus, switched links do not; NCCL has no one-shot variant."""
    unknowns = [FLOOR, PER_RANK, BANDWIDTH, RAMP]
    fixed: dict[str, float] = {"multicast": float(multicast), **cross}
    if one_shot:
        unknowns += [Unknown("one_shot_efficiency", 0.5, *EFFICIENCY), Unknown("two_shot_floor_s", 5e-6, 1e-8, 1e-4)]
    else:
        fixed |= {"one_shot_efficiency": 1e-12, "two_shot_floor_s": 0.0}
    if shared_bus:
        unknowns.append(CONTENTION)
    else:
        fixed["contention"] = 0.0
    return Form("all_reduce", tuple(unknowns), fixed, ())


def shard_form(operator: str, shared_bus: bool, cross: Mapping[str, float]) -> Form:
    """All-gather, reduce-scatter, all-to-all over NCCL."""
    bus = (CONTENTION,) if shared_bus else ()
    return Form(
        operator, (FLOOR, PER_RANK, BANDWIDTH, RAMP, *bus), {**cross, **({} if bus else {"contention": 0.0})}, ()
    )


def cross_form(operator: str, known: Mapping[str, float] | None) -> Form:
    """DeepEP: what crosses nodes is fitted where several were measured, else taken as ``known``."""
    fixed = {} if known is None else dict(known)
    return Form(operator, (FLOOR, BANDWIDTH, *(CROSS if known is None else ())), fixed, ())


FORMS: Mapping[str, Form] = {
    "prefill_attention": Form(
        "prefill_attention",
        (
            FLOOR, COMPUTE, BANDWIDTH, Unknown("padding_keys", 64.0, 0.01, 2000.0),
            Unknown("overhead_width", 16.0, 0.01, 500.0), Unknown("depth_s_per_token", 1e-9, 1e-13, 1e-6),
        ),
        {},
    ),
    "decode_attention": Form(
        "decode_attention",
        (
            FLOOR, Unknown("compute_efficiency", 0.1, 0.002, 1.0), BANDWIDTH, DEPTH_TOKEN,
            Unknown("block_s", 1e-9, 1e-13, 1e-6),
        ),
        {},
    ),
    "prefill_mla": Form(
        "prefill_mla",
        (
            FLOOR, COMPUTE, BANDWIDTH, Unknown("padding_keys", 64.0, 0.01, 2000.0),
            Unknown("depth_s_per_token", 1e-9, 1e-13, 1e-6),
        ),
        {},
    ),
    "decode_mla": Form(
        "decode_mla",
        (
            FLOOR, COMPUTE, BANDWIDTH, Unknown("padding_rows", 8.0, 0.01, 200.0), DEPTH_TOKEN,
            Unknown("block_s", 1e-9, 1e-13, 1e-6),
        ),
        {},
    ),
    "mla_bmm": Form("mla_bmm", (FLOOR, COMPUTE, BANDWIDTH), {}),
    "moe": Form(
        "grouped_gemm_rank", (*MOE, Unknown("routing_s_per_pair", 1e-9, 1e-13, 1e-6)), {"gathers": 1.0}
    ),
    "moe_deepep": Form("grouped_gemm_rank", MOE, {"gathers": 0.0, "routing_s_per_pair": 0.0}),
    "send": Form("send", (FLOOR, BANDWIDTH, RAMP), {}, ()),
}  # fmt: skip


def fit(sample: Sample, form: Form, device: Device, dtype: Mapping[str, Any]) -> Fit:
    """The best curve of ``form`` for ``sample`` on ``device``; ``dtype`` gives compute type and bytes per element."""
    from scipy.optimize import least_squares

    names = [u.name for u in form.unknowns]
    bounds = (np.log([u.low for u in form.unknowns]), np.log([u.high for u in form.unknowns]))
    measured = np.log(sample.seconds)
    best: tuple[float, dict[str, float]] | None = None
    for exponent in form.exponents or (None,):
        fixed = dict(form.fixed) | ({} if exponent is None else {"exponent": exponent})
        evaluate = _evaluator(sample, form, device, dtype, fixed)

        def error(x: Array, evaluate: Callable[[Mapping[str, float]], Array] = evaluate) -> Array:
            return np.log(evaluate(dict(zip(names, np.exp(x), strict=True)))) - measured

        start = np.log([u.start for u in form.unknowns])
        solution = least_squares(
            error, start, bounds=bounds, loss="soft_l1", f_scale=LOSS_SCALE, max_nfev=MAX_EVALUATIONS
        )
        found = {n: _rounded(float(v)) for n, v in zip(names, np.exp(solution.x), strict=True)} | fixed
        score = float(np.median(np.abs(np.exp(np.abs(error(solution.x))) - 1.0)))
        if best is None or score < best[0]:
            best = (score, found)
    assert best is not None
    return Fit(sample, form, best[1], _evaluator(sample, form, device, dtype, {})(best[1]))


def predict(sample: Sample, form: Form, device: Device, dtype: Mapping[str, Any], known: Mapping[str, float]) -> Array:
    """Seconds of ``sample``'s rows by given coefficients."""
    return _evaluator(sample, form, device, dtype, {})(known)


def _evaluator(
    sample: Sample, form: Form, device: Device, dtype: Mapping[str, Any], fixed: Mapping[str, float]
) -> Callable[[Mapping[str, float]], Array]:
    operator = getattr(operators, form.operator)
    compute = dtype["compute"] if dtype["compute"] in device.peak_flops else "bf16"

    def evaluate(unknown: Mapping[str, float]) -> Array:
        curve = Curve(
            op=sample.op, engine=sample.engine, dtype=sample.dtype, form=form.operator,
            coefficients={**fixed, **unknown}, peak_flops=device.peak(compute), mem_bw=device.mem_bw,
            link_bw=device.link_bw if device.link_bw is not None else device.pcie_bw, nic_bw=device.nic_bw,
            weight_bytes=float(dtype["weight_bytes"]), activation_bytes=float(dtype["activation_bytes"]),
            from_accelerator=device.id, extrapolated=False, beyond_runs=False,
            points=len(sample.seconds), median_ape=0.0, p90_ape=0.0, bias=0.0, spread=0.0, status="measured",
            source="", note="",
        )  # fmt: skip
        return np.asarray(operator(curve, **sample.inputs))

    return evaluate


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def by_class(fits: Iterable[Fit]) -> dict[str, list[Fit]]:
    """Fits grouped by operator class, in the order met."""
    groups: dict[str, list[Fit]] = {}
    for one in fits:
        groups.setdefault(one.sample.op, []).append(one)
    return groups
