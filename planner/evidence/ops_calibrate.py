"""Calibrate the operator curves: fit every sample, write ``hardware_db/efficiency/ops``, print the residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from planner.evidence.ops_fit import (
    FORMS,
    Fit,
    Form,
    all_reduce_form,
    by_class,
    cross_form,
    fit,
    gemm_form,
    predict,
    shard_form,
)
from planner.evidence.ops_samples import ARTEFACT_ENGINE, ARTEFACT_TYPE, SOURCES, Sample, samples
from planner.hardware.curves import fallback_rules
from planner.hardware.device import Device
from planner.units import TERA

if TYPE_CHECKING:
    from rich.table import Table

TABLES_SOURCE = "operator tables of NVIDIA AIConfigurator 0.12.0 (Apache-2.0)"
TABLES_DATE = "2026-01"
TARGETS_MEDIAN_APE: Mapping[str, float] = {
    "gemm bf16": 0.12, "gemm fp8/fp4": 0.18, "attention": 0.15, "moe": 0.25, "collectives": 0.12,
}  # fmt: skip
"""What the project set out to reach in sample (median over the rows of a curve, median over curves)."""

MULTICAST_GENERATIONS = ("hopper", "blackwell")
ARTEFACT_LIMIT = 0.25
SLOWER_THAN_16_BIT = 1.5
"""Median of measured over 16-bit time beyond which an engine would not choose a narrow experts' kernel: it holds the
16-bit one beside it. Every other measured pair lies below 1.3."""
HEADER = "# Written by `planner calibrate ops`; edit measured/ or planner/evidence/ops_fit.py instead.\n"


def calibrate_ops(
    measured_dir: Path,
    out_dir: Path | None = None,
    *,
    classes: Sequence[str] | None = None,
    accelerators: Sequence[str] | None = None,
    devices: Mapping[str, Device] | None = None,
) -> list[Fit]:
    """Fit every curve from ``measured_dir/ops``; with ``out_dir``, write one YAML an accelerator there.

    ``classes`` and ``accelerators`` restrict what is fitted (nothing is written then unless all is). ``devices``
    defaults to the catalogue's. Deterministic: the same tables give the same files.
    """
    rules = fallback_rules()
    resolve = devices or _Catalogue()
    fits: list[Fit] = []
    for op in classes or SOURCES:
        chosen = [s for s in samples(measured_dir, op) if accelerators is None or s.gpu in accelerators]
        # Accelerators measured across nodes come first: the others borrow what a single node cannot show.
        chosen.sort(key=lambda s: (not _spans_nodes(s), s.gpu, s.engine, s.dtype))
        borrowed: dict[str, float] | None = None
        for sample in chosen:
            form = _form(sample, resolve[sample.gpu], rules, borrowed)
            one = fit(sample, form, resolve[sample.gpu], _dtype(rules, sample))
            if _artefact(sample) and one.residuals()["median_ape"] > ARTEFACT_LIMIT:
                continue  # what is left above the harness's floor is no kernel time either; another engine stands in
            if _spans_nodes(sample):
                borrowed = {k: one.coefficients[k] for k in ("cross_efficiency", "cross_floor_s")}
            fits.append(one)
    left_out = [one for one in fits if _never_chosen(one, fits, resolve)]
    fits = [one for one in fits if one not in left_out]
    if out_dir is not None and classes is None and accelerators is None:
        write(fits, out_dir, resolve, left_out)
    return fits


def write(
    fits: Iterable[Fit], out_dir: Path, devices: Mapping[str, Device], left_out: Iterable[Fit] = ()
) -> list[Path]:
    """One YAML an accelerator, curves sorted by class, engine and data type; ``left_out`` are only named."""
    unused: dict[str, list[dict[str, Any]]] = {}
    for one in left_out:
        sample = one.sample
        named = {"op": sample.op, "engine": sample.engine, "dtype": sample.dtype, "kernel": sample.kernel}
        reason = f"over {SLOWER_THAN_16_BIT} times the time of this engine's 16-bit kernel on the same rows"
        unused.setdefault(sample.gpu, []).append(named | {"points": len(sample.seconds), "reason": reason})
    by_gpu: dict[str, list[Fit]] = {}
    for one in fits:
        by_gpu.setdefault(one.sample.gpu, []).append(one)
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for gpu, group in sorted(by_gpu.items()):
        group.sort(key=lambda f: (f.sample.op, f.sample.engine, f.sample.dtype))
        document: dict[str, Any] = {"accelerator": gpu, "source": TABLES_SOURCE, "date": TABLES_DATE}
        document["peaks_tflops"] = _peaks(devices[gpu])
        if gpu in unused:
            document["left_out"] = unused[gpu]
        document["curves"] = [entry(f) for f in group]
        text = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
        path = out_dir / f"{gpu}.yaml"
        path.write_text(HEADER + text, encoding="utf-8")
        paths.append(path)
    return paths


def _peaks(here: Device) -> dict[str, float]:
    """What the efficiencies are fractions of, and the vector peak that they are carried to other cards by."""
    known = dict(here.peak_flops) | ({} if here.vector_flops is None else {"fp32_vector": here.vector_flops})
    return {name: value / TERA for name, value in known.items()}


def entry(one: Fit) -> dict[str, Any]:
    """The YAML entry of one curve."""
    sample = one.sample
    body: dict[str, Any] = {
        "op": sample.op, "engine": sample.engine, "dtype": sample.dtype, "form": one.form.operator,
        "status": "measured", "coefficients": {k: float(v) for k, v in one.coefficients.items()},
        "points": len(sample.seconds), "residuals": {k: round(v, 4) for k, v in one.residuals().items()},
        "engine_version": sample.engine_version, "kernel": sample.kernel,
        "source": f"{TABLES_SOURCE}, {sample.table}",
    }  # fmt: skip
    if sample.excluded:
        body["excluded_rows"] = dict(sample.excluded)
    assumed = [k for k in ("cross_efficiency", "cross_floor_s") if k in one.form.fixed]
    if assumed:
        body["assumed"] = assumed
    return body


def summary(fits: Iterable[Fit]) -> dict[str, dict[str, float]]:
    """By target group and class: curves, rows and the median over curves of median and p90 error, worst curve."""
    rows: dict[str, dict[str, float]] = {}
    for name, group in _grouped(fits).items():
        medians = [f.residuals()["median_ape"] for f in group]
        rows[name] = {
            "curves": len(group),
            "rows": sum(len(f.sample.seconds) for f in group),
            "median_ape": float(np.median(medians)),
            "worst_ape": float(np.max(medians)),
            "p90_ape": float(np.median([f.residuals()["p90_ape"] for f in group])),
            "bias": float(np.median([f.residuals()["bias"] for f in group])),
        }
    return rows


def render_table(fits: Iterable[Fit]) -> Table:
    """The residual table (rich): one line a class and data type, against the target."""
    from rich.table import Table

    table = Table(title="Operator curves: residuals in sample")
    for column in ("class", "target", "curves", "rows", "median APE", "worst curve", "p90 APE", "bias"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for name, row in summary(fits).items():
        target = TARGETS_MEDIAN_APE.get(target_group(*_split(name)))
        table.add_row(
            name, "" if target is None else f"{target:.0%}", f"{row['curves']:.0f}", f"{row['rows']:.0f}",
            f"{row['median_ape']:.1%}", f"{row['worst_ape']:.1%}", f"{row['p90_ape']:.1%}", f"{row['bias']:+.1%}",
        )  # fmt: skip
    return table


def target_group(op: str, dtype: str) -> str:
    """Which of :data:`TARGETS_MEDIAN_APE` a curve is held to."""
    if op == "gemm":
        return "gemm bf16" if dtype == "bf16" else "gemm fp8/fp4"
    if op in ("prefill_attention", "decode_attention", "prefill_mla", "decode_mla", "mla_bmm"):
        return "attention"
    return "moe" if op.startswith("moe") else "collectives"


def _grouped(fits: Iterable[Fit]) -> dict[str, list[Fit]]:
    groups: dict[str, list[Fit]] = {}
    for op, members in by_class(fits).items():
        for one in sorted(members, key=lambda f: f.sample.dtype):
            groups.setdefault(f"{op} {one.sample.dtype}", []).append(one)
    return groups


def _split(name: str) -> tuple[str, str]:
    op, dtype = name.split(" ")
    return op, dtype


def _form(sample: Sample, device: Device, rules: Mapping[str, Any], borrowed: Mapping[str, float] | None) -> Form:
    op = sample.op
    cross = rules["cross_domain"]["collective"]
    shared_bus = device.link_bw is None
    if op == "gemm":
        return gemm_form(sample.dtype, _artefact(sample))
    if op in ("all_reduce", "all_reduce_nccl"):
        multicast = device.generation in MULTICAST_GENERATIONS
        return all_reduce_form(shared_bus, multicast, op == "all_reduce", rules["cross_domain"]["all_reduce"])
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return shard_form(op, shared_bus, cross)
    if op.startswith("deepep"):
        return cross_form(op, None if _spans_nodes(sample) else borrowed or cross)
    if op == "send":
        form = FORMS["send"]
        return Form(form.operator, form.unknowns, rules["cross_domain"]["send"], form.exponents)
    return FORMS["moe_deepep" if op.startswith("moe_deepep") else op]


def _never_chosen(one: Fit, fits: Iterable[Fit], resolve: Mapping[str, Device]) -> bool:
    """Whether a kernel for narrow experts is slower by far than the same engine's 16-bit one on the same rows.

    Its rows measured something else than what runs (a kernel without a tuned tile, as vLLM's per-tensor fp8 on Hopper
    at an eighth of the memory bandwidth, where the block-scaled kernel of the same library reaches 0.95).
    """
    sample = one.sample
    if sample.op != "moe" or sample.dtype == "bf16":
        return False
    same = (f for f in fits if (f.sample.op, f.sample.gpu, f.sample.engine) == ("moe", sample.gpu, sample.engine))
    wide = next((f for f in same if f.sample.dtype == "bf16"), None)
    if wide is None:
        return False
    times = predict(
        replace(wide.sample, inputs=sample.inputs, seconds=sample.seconds),
        wide.form,
        resolve[sample.gpu],
        _dtype(fallback_rules(), wide.sample),
        wide.coefficients,
    )
    return bool(np.median(sample.seconds / times) > SLOWER_THAN_16_BIT)


def _artefact(sample: Sample) -> bool:
    return (sample.op, sample.engine, sample.dtype) == ("gemm", ARTEFACT_ENGINE, ARTEFACT_TYPE)


def _spans_nodes(sample: Sample) -> bool:
    return "ep" in sample.inputs and float(np.max(sample.inputs["ep"])) > float(np.min(sample.inputs["ep"]))


def _dtype(rules: Mapping[str, Any], sample: Sample) -> Mapping[str, Any]:
    family = rules["classes"][sample.op]["types"]
    return next(c for c in rules["types"][family][sample.dtype] if c["curve"] == sample.dtype)


class _Catalogue(dict[str, Device]):
    """Devices of the catalogue, resolved when first asked for."""

    def __missing__(self, accelerator: str) -> Device:
        from planner.catalog import catalog
        from planner.hardware.device import device

        self[accelerator] = device(catalog().accelerator(accelerator))
        return self[accelerator]
