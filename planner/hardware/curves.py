"""Efficiency curves: fitted coefficients of the operator formulas, and which ones stand in where none were measured.

``hardware_db/efficiency/ops/<accelerator>.yaml`` holds the curves fitted for that accelerator (written by
:mod:`planner.evidence.ops_calibrate`); ``_fallbacks.yaml`` says whose curve is used where nothing was measured, and
why. A curve that stands in for another carries ``extrapolated = True``, a sentence in ``note`` and a wider ``spread``:
nothing is substituted silently.

Between accelerators with the same multiprocessors (``same_sm``) a compute efficiency is not carried as a fraction of
the tensor cores' peak but as time beside them: :func:`carried_efficiency`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from planner.errors import InputError, UnknownNameError
from planner.hardware.device import Device
from planner.units import TERA

FALLBACKS_FILE = "_fallbacks.yaml"
SAME_EFFICIENCY = 0.02
"""Relative difference up to which peaks count as in one proportion: data sheets round them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One operator class on one device: coefficients of ``form`` and the peaks they are fractions of.

    ``engine``, ``dtype`` and ``from_accelerator`` say whose measurements were fitted; the peaks are always those
    of the device asked for. ``weight_bytes`` and ``activation_bytes`` are bytes per element moved by this data
    type. ``spread`` is the relative half-width of an 80 % interval around a time (0.2 = ±20 %), widened by the
    fallback's factor where the curve is ``extrapolated``.
    """

    op: str
    engine: str
    dtype: str
    form: str
    coefficients: Mapping[str, float]
    peak_flops: float
    mem_bw: float
    link_bw: float | None
    nic_bw: float | None
    weight_bytes: float
    activation_bytes: float
    from_accelerator: str
    extrapolated: bool
    beyond_runs: bool
    """Stands in from another accelerator, data type or peak, or for measurements of the engine's own that the fit left
    out. Another engine's kernels on the same accelerator are part of what end-to-end residuals show; these are not."""
    points: int
    median_ape: float
    p90_ape: float
    bias: float
    spread: float
    status: str
    source: str
    note: str
    as_measured: Curve | None = None
    """The kernel with the tensor cores that it was measured with and the vector units of this device, where it was
    carried to other tensor cores (:func:`carried_efficiency`): the time that factors of end-to-end runs speak of."""

    def __getitem__(self, key: str) -> float:
        return self.coefficients[key]


class _Donor(NamedTuple):
    """An accelerator whose curves may be used, and why it is not the device's own ('' where it is)."""

    id: str
    why: str
    spread_factor: float
    same_sm: bool


class CurveSet:
    """The curves of one device as run by one engine; :meth:`get` resolves data type, engine and accelerator."""

    def __init__(self, device: Device, engine: str, directory: Path) -> None:
        self.device = device
        self.engine = engine
        self._directory = directory
        self._rules = fallback_rules(directory)
        if engine not in self._rules["engines"]:
            raise UnknownNameError("engine", engine, self._rules["engines"])
        self._found: dict[tuple[str, str], Curve] = {}

    def get(self, op: str, dtype: str) -> Curve:
        """The curve of operator class ``op`` for data type ``dtype`` (a curve's or a checkpoint format's name).

        Raises :class:`UnknownNameError` for a class or type nobody knows and :class:`InputError` where the device
        lacks the peak or link the curve needs.
        """
        key = (op, dtype)
        if key not in self._found:
            self._found[key] = self._resolve(op, dtype)
        return self._found[key]

    def used(self) -> Iterator[Curve]:
        """Every curve asked for so far, by name (for the assumptions of a plan)."""
        return (self._found[key] for key in sorted(self._found))

    def _resolve(self, op: str, dtype: str) -> Curve:
        rules = self._rules
        if op not in rules["classes"]:
            raise UnknownNameError("operator class", op, rules["classes"])
        family = rules["classes"][op]["types"]
        if dtype not in rules["types"][family]:
            raise UnknownNameError(f"data type of {op}", dtype, rules["types"][family])
        candidates = rules["types"][family][dtype]
        for donor, allowed in self._stages(op, candidates):
            path = str(self._directory / f"{donor.id}.yaml")
            table = _curves_of(path)
            for candidate, engine in self._choices(op, allowed):
                entry = table.get((op, engine, candidate["curve"]))
                if entry is None:
                    continue
                notes, factor = [], 1.0
                beyond = bool(donor.why or candidate.get("why"))
                if donor.why:
                    notes.append(donor.why)
                    factor *= donor.spread_factor
                if engine != self.engine and "engines" not in rules["classes"][op]:
                    reason = _left_out_of(path).get((op, self.engine, candidate["curve"]), "")
                    factor *= float(rules["engine_spread_factor"])
                    if reason:
                        # The engine's own kernel may be as slow as measured: no run shows how far the stand-in is off.
                        notes.append(f"{self.engine} was measured here but left out ({reason}): curve of {engine}")
                        factor *= float(rules["left_out_spread_factor"])
                        beyond = True
                    else:
                        notes.append(f"{self.engine} was not measured here: curve of {engine}")
                if candidate.get("why"):
                    notes.append(str(candidate["why"]))
                    factor *= float(candidate["spread_factor"])
                return self._make(op, engine, candidate, entry, donor, notes, factor, beyond)
        raise InputError(
            f"{op} of {dtype} on {self.device.id}", self.engine, "no measured curve, nor one that may stand in"
        )

    def _stages(self, op: str, candidates: list[Mapping[str, Any]]) -> Iterator[tuple[_Donor, list[Mapping[str, Any]]]]:
        """Accelerators and the data types to look for there, nearest first.

        Where nothing was measured on the device itself, a neighbour with curves of a type that the device computes in
        goes before a nearer one without: 4-bit tensor cores tell more about a kernel than the kind of memory.
        """
        accelerators = self._accelerators(op)
        own = [c for c in candidates if not c.get("why") and str(c["compute"]) in self.device.peak_flops]
        if own and all(donor.why for donor in accelerators):
            yield from ((accelerator, own) for accelerator in accelerators)
        yield from ((accelerator, candidates) for accelerator in accelerators)

    def _choices(self, op: str, candidates: list[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
        """(data type, engine) pairs to try on one accelerator, nearest first."""
        rules = self._rules["classes"][op]
        engines = rules.get("engines", self._rules["engines"][self.engine]["order"])
        if rules.get("own_engine_first"):
            return [(candidate, engine) for engine in engines for candidate in candidates]
        return [(candidate, engine) for candidate in candidates for engine in engines]

    def _accelerators(self, op: str) -> list[_Donor]:
        """Accelerators whose data may be used, best first."""
        rules = self._rules["accelerators"]
        here = self.device
        chain: list[_Donor] = []
        if here.id in rules["measured"]:
            chain.append(_Donor(here.id, "", 1.0, same_sm=False))
        rule = rules["substitutes"].get(here.id) or rules["by_generation"].get(here.generation) or rules["otherwise"]
        bus = self._rules["classes"][op].get("needs_link") and here.link_bw is None
        for chosen in (rules["shared_bus"], rule) if bus else (rule,):
            for other in chosen["use"]:
                if other not in (here.id, *(donor.id for donor in chain)):
                    why = f"{op} was not measured on {here.id}: curve of {other} on its own peaks ({chosen['why']})"
                    same_sm = other in chosen.get("same_sm", ())
                    chain.append(_Donor(other, why, float(chosen["spread_factor"]), same_sm))
        return chain

    def _make(
        self,
        op: str,
        engine: str,
        candidate: Mapping[str, Any],
        entry: Mapping[str, Any],
        donor: _Donor,
        notes: list[str],
        factor: float,
        beyond: bool,
    ) -> Curve:
        here = self.device
        compute = str(candidate["compute"])
        if compute not in here.peak_flops:
            stand_in = str(self._rules["peak_fallback"]["use"])
            notes.append(f"{here.id} has no {compute} peak: {stand_in} used ({self._rules['peak_fallback']['why']})")
            factor *= float(self._rules["peak_fallback"]["spread_factor"])
            compute, beyond = stand_in, True
        residuals = entry["residuals"]
        if self._rules["classes"][op].get("needs_link") and here.link_bw is None and here.pcie_bw is None:
            raise InputError(f"{op} on {here.id}", None, "the accelerator's scale-up or PCIe bandwidth is needed")
        curve = Curve(
            op=op,
            engine=engine,
            dtype=str(candidate["curve"]),
            form=str(entry["form"]),
            coefficients={k: float(v) for k, v in entry["coefficients"].items()},
            peak_flops=here.peak(compute),
            mem_bw=here.mem_bw,
            link_bw=here.link_bw if here.link_bw is not None else here.pcie_bw,
            nic_bw=here.nic_bw,
            weight_bytes=float(candidate["weight_bytes"]),
            activation_bytes=float(candidate["activation_bytes"]),
            from_accelerator=donor.id,
            extrapolated=bool(notes),
            beyond_runs=beyond,
            points=int(entry["points"]),
            median_ape=float(residuals["median_ape"]),
            p90_ape=float(residuals["p90_ape"]),
            bias=float(residuals["bias"]),
            spread=float(residuals["p80_ape"]) * factor,
            status=str(entry["status"]) if not notes else "assumed",
            source=str(entry["source"]),
            note="; ".join(notes),
        )
        return self._carried(curve, donor, compute) if donor.same_sm else curve

    def _carried(self, curve: Curve, donor: _Donor, compute: str) -> Curve:
        """The donor's curve with its compute efficiency carried to this device's tensor cores, where these are others
        in proportion.
        """
        peaks = _peaks_of(str(self._directory / f"{donor.id}.yaml"))
        vector = self.device.vector_flops
        if "compute_efficiency" not in curve.coefficients or compute not in peaks or vector is None:
            return curve
        measured = curve["compute_efficiency"]
        efficiency = carried_efficiency(measured, (peaks[compute], peaks["fp32_vector"]), (curve.peak_flops, vector))
        if np.isclose(efficiency, measured, rtol=SAME_EFFICIENCY):
            return curve
        before = replace(curve, peak_flops=peaks[compute] * vector / peaks["fp32_vector"])
        changed = dict(curve.coefficients) | {"compute_efficiency": efficiency}
        return replace(curve, coefficients=changed, as_measured=before)


def carried_efficiency(efficiency: float, measured: tuple[float, float], here: tuple[float, float]) -> float:
    """Part of the peak that a kernel reaches with other tensor cores in the same multiprocessors; 0 to 1.

    ``measured`` and ``here`` are (tensor peak P, fp32 vector peak V) where ``efficiency`` e was measured and where it
    is asked for, in one unit. What a kernel takes beyond the tensor cores' own time, (1/e - 1)/P a FLOP, is spent in
    the rest of the multiprocessor (addresses, scales, softmax, shared memory), whose rate follows V:

        1/(e' P') = 1/P' + (1/e - 1)/P V/V'

    With P and V in one proportion, as in parts with fewer multiprocessors or lower clocks, e' = e. One accelerator's
    rows in measured/ops by another's curves (those bound by arithmetic; median and P90 error, first with e' = e): B200
    and GB200 by each other 7.2 and 24 %, then 6.4 and 24 % (plain and grouped GEMMs up to 0.3 points worse in the
    median); H100 and H200 by Blackwell's 26 and 71 %, then 18 and 70 %, no class of operators worse in the median, the
    P90 of attention 3 to 4 points worse. Ampere and Ada, older multiprocessors, are met no better by Hopper's for it
    (medians 18 and 29 %, then 18 and 36 %): there efficiencies stay parts of the peak. Triton's experts on an H20 by
    H200's curve (tests/roofline/test_operators_published.py) take 1.00 of the predicted time, instead of 0.54.
    """
    (peak, vector), (peak_here, vector_here) = measured, here
    return efficiency / (efficiency + (1.0 - efficiency) * (peak_here / peak) * (vector / vector_here))


def curves(device: Device, engine: str, directory: Path | None = None) -> CurveSet:
    """The curve set of a device and engine (sglang, trtllm, vllm); data from ``directory`` or the shipped one."""
    return CurveSet(device, engine, directory or shipped_directory())


def fallback_rules(directory: Path | None = None) -> Any:
    """The table of stand-ins, data types and assumed constants (``_fallbacks.yaml``), read once."""
    return _read(str((directory or shipped_directory()) / FALLBACKS_FILE))


def shipped_directory() -> Path:
    """Where the fitted curves lie: inside an installed wheel, else in the repository."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_data", package.parent):
        path = root / "hardware_db" / "efficiency" / "ops"
        if path.is_dir():
            return path
    raise InputError("hardware_db/efficiency/ops", str(package), "the fitted curves are missing from this installation")


@lru_cache(maxsize=64)
def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as f:
        return yaml.load(f, Loader=yaml.CSafeLoader)


@lru_cache(maxsize=64)
def _curves_of(path: str) -> Mapping[tuple[str, str, str], Mapping[str, Any]]:
    """(op, engine, dtype) → entry of one accelerator's file; empty where there is no such file."""
    if not Path(path).exists():
        return {}
    return {(e["op"], e["engine"], e["dtype"]): e for e in _read(path)["curves"]}


@lru_cache(maxsize=64)
def _peaks_of(path: str) -> Mapping[str, float]:
    """Peaks by compute type and ``fp32_vector`` that one accelerator's efficiencies are fractions of, FLOP/s."""
    return {name: float(value) * TERA for name, value in _read(path)["peaks_tflops"].items()}


@lru_cache(maxsize=64)
def _left_out_of(path: str) -> Mapping[tuple[str, str, str], str]:
    """(op, engine, dtype) → why measurements of one accelerator were left out of the fit; empty where none were."""
    if not Path(path).exists():
        return {}
    return {(e["op"], e["engine"], e["dtype"]): str(e["reason"]) for e in _read(path).get("left_out", ())}
