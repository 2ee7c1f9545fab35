"""An accelerator in SI units, resolved from the catalogue: what the formulas multiply with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.units import BYTES_PER_GBIT, GIB, GIGA, TERA

if TYPE_CHECKING:
    from planner.catalog.hardware_spec import Accelerator, Node

PEAK_KEYS = ("bf16", "fp8", "int8", "fp4")


@dataclass(frozen=True, slots=True)
class Device:
    """Peaks and capacities of one accelerator; bytes, B/s, FLOP/s, W, links unidirectional per GPU.

    ``peak_flops`` holds only the data types the catalogue has a dense figure for; ``missing`` names every
    quantity that was not sourced (never guessed). ``mem_bytes`` is the usable memory, or the sold one when
    the usable is unknown, and then ``missing`` contains ``memory.gib_usable``.
    """

    id: str
    name: str
    vendor: str
    generation: str
    peak_flops: Mapping[str, float]
    mem_bytes: float
    mem_bw: float
    link_bw: float | None
    nic_bw: float | None
    pcie_bw: float | None
    tdp_w: float | None
    missing: tuple[str, ...]
    vector_flops: float | None = None
    """Dense fp32 peak outside the tensor cores; None where the catalogue has none."""

    def peak(self, dtype: str) -> float:
        """Dense peak in FLOP/s of a compute type; raises where the catalogue has none."""
        if dtype not in self.peak_flops:
            raise InputError(f"accelerator {self.id}", dtype, f"dense peaks known: {', '.join(self.peak_flops)}")
        return self.peak_flops[dtype]


def device(accelerator: Accelerator, node: Node | None = None) -> Device:
    """Resolve a catalogue accelerator into SI units; in ``node`` with that node's own links and NICs per GPU.

    Raises :class:`InputError` where bandwidth, memory or a bf16 peak is missing: without them there is no
    roofline at all.
    """
    missing: list[str] = []
    peaks: dict[str, float] = {}
    for key in PEAK_KEYS:
        value = getattr(accelerator.tflops_dense, key)
        if value is None:
            missing.append(f"tflops_dense.{key}")
        else:
            peaks[key] = float(value) * TERA
    if "bf16" not in peaks:
        raise InputError(f"accelerator {accelerator.id}: tflops_dense.bf16", None, "a dense bf16 peak is needed")

    vector = accelerator.tflops_dense.fp32_vector
    memory = accelerator.memory
    usable = memory.gib_usable
    if usable is None:
        missing.append("memory.gib_usable")
        mem_bytes = float(_need(accelerator, memory, "gb_sold")) * GIGA
    else:
        mem_bytes = float(usable) * GIB
    mem_bw = float(_need(accelerator, memory, "bandwidth_gb_s")) * GIGA

    def optional(group: str, key: str, unit: float) -> float | None:
        value = getattr(getattr(accelerator, group), key)
        if value is None:
            missing.append(f"{group}.{key}")
            return None
        return float(value) * unit

    link_bw = optional("scale_up", "unidirectional_gb_s", GIGA)
    nic_bw = optional("scale_out_nic", "gbit_s_per_gpu", BYTES_PER_GBIT)
    if node is not None:
        own_link = node.scale_up.unidirectional_gb_s_per_gpu
        if node.scale_up.domain == 1:
            link_bw = None
        elif own_link is not None:
            link_bw = own_link * GIGA
        if node.nics is not None and node.nics.count and node.nics.gbit_s:
            nic_bw = node.nics.count * node.nics.gbit_s * BYTES_PER_GBIT / node.gpus
        missing = [m for m in missing if not (m.startswith("scale_out_nic") and nic_bw is not None)]

    return Device(
        id=accelerator.id,
        name=accelerator.name,
        vendor=accelerator.vendor,
        generation=accelerator.arch,
        peak_flops=peaks,
        mem_bytes=mem_bytes,
        mem_bw=mem_bw,
        link_bw=link_bw,
        nic_bw=nic_bw,
        pcie_bw=optional("pcie", "unidirectional_gb_s", GIGA),
        tdp_w=optional("power_w", "tdp", 1.0),
        missing=tuple(missing),
        vector_flops=None if vector is None else float(vector) * TERA,
    )


def _need(accelerator: Accelerator, group: Any, key: str) -> Any:
    value = getattr(group, key)
    if value is None:
        allowed = f"one whose {key} is known; the catalogue has none for this one, a folder of your own may state it"
        raise InputError("accelerator", accelerator.id, allowed)
    return value
