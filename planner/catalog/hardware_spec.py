"""Schemas of hardware_db/accelerators/ and hardware_db/nodes/: every number with its unit in the key, source and date.

``null`` is "not sourced": it stays missing and is named as such, never guessed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from planner.catalog.model_spec import Strict

Status = Literal["datasheet", "measured", "derived", "assumed"]
"""datasheet: the vendor's figure, read there or in a table that quotes it; measured: on real hardware; derived: made
from other figures as the source says; assumed: taken over from a like part or from another model of the hardware."""


class Sourced(Strict):
    """A group of values with one provenance; a group with a value must say where it comes from."""

    status: Status | None = None
    source: str | None = None
    date: str | None = None
    "Of the source or, where that has none, of its reading (year-month)."
    note: str | None = None

    @model_validator(mode="after")
    def _has_provenance(self) -> Sourced:
        provenance = {"status", "source", "date", "note"}
        values = [v for k, v in self if k not in provenance]
        if any(v is not None for v in values) and not (self.status and self.source and self.date):
            raise ValueError("values need status, source and date")
        return self


class TflopsDense(Sourced):
    """Peaks of the matrix units in TFLOP/s (TOP/s for int8), without structured sparsity."""

    fp32_vector: PositiveFloat | None = None
    tf32: PositiveFloat | None = None
    bf16: PositiveFloat | None = None
    fp8: PositiveFloat | None = None
    int8: PositiveFloat | None = None
    fp4: PositiveFloat | None = None


class Memory(Sourced):
    """Device memory: GB as sold (decimal), GiB as an engine or the driver can use, bandwidth in GB/s."""

    type: str
    gb_sold: PositiveFloat | None = None
    bandwidth_gb_s: PositiveFloat | None = None
    gib_usable: PositiveFloat | None = None
    usable_status: Status | None = None
    usable_source: str | None = None

    @model_validator(mode="after")
    def _usable_has_provenance(self) -> Memory:
        if self.gib_usable is not None and not (self.usable_status and self.usable_source):
            raise ValueError("gib_usable needs usable_status and usable_source")
        return self


class ScaleUp(Sourced):
    """Fast links inside a domain, unidirectional GB/s per accelerator."""

    type: str | None = None
    unidirectional_gb_s: PositiveFloat | None = None
    domain_size: PositiveInt | None = None
    topology: str | None = None


class ScaleOutNic(Sourced):
    """Network per accelerator, Gbit/s unidirectional."""

    gbit_s_per_gpu: PositiveFloat | None = None


class Pcie(Sourced):
    """Host link, unidirectional GB/s per accelerator."""

    gen: PositiveInt | None = None
    unidirectional_gb_s: PositiveFloat | None = None


class PowerW(Sourced):
    """Board power in W."""

    tdp: PositiveFloat | None = None


class Chip(Sourced):
    """Counts: NVIDIA SMs, AMD compute units, Huawei AI cores, Gaudi TPCs; last-level cache in MB."""

    sm_count: PositiveInt | None = None
    l2_mb: PositiveFloat | None = None


class Measured(Sourced):
    """What was reached on real hardware (maximum achievable matmul FLOP/s, links, memory)."""

    bf16_mamf_tflops: PositiveFloat | None = None
    fp8_mamf_tflops: PositiveFloat | None = None
    nvlink_gb_s: PositiveFloat | None = None
    nvlink_pair_gb_s: PositiveFloat | None = None
    rdma_gb_s: PositiveFloat | None = None
    pcie_gb_s: PositiveFloat | None = None
    memory_bandwidth_gb_s: PositiveFloat | None = None


class Accelerator(Strict):
    """One accelerator as sold; per GPU where several sit in a rack. Prices: :class:`planner.catalog.prices.Prices`."""

    id: str
    name: str
    vendor: Literal["nvidia", "amd", "huawei", "intel", "google", "other"]
    arch: str
    "Generation: ampere, ada, hopper, blackwell, blackwell-ultra, cdna3, cdna4, ascend, gaudi3, tpu."
    form_factor: str | None = None
    tflops_dense: TflopsDense
    memory: Memory
    scale_up: ScaleUp = ScaleUp()
    scale_out_nic: ScaleOutNic = ScaleOutNic()
    pcie: Pcie = Pcie()
    power_w: PowerW = PowerW()
    chip: Chip = Chip()
    measured: Measured | None = None
    disagreements: tuple[str, ...] = ()
    "What other sources say instead."
    not_sourced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class NodeScaleUp(Sourced):
    """The scale-up domain of a node or rack; unidirectional GB/s per accelerator."""

    domain: PositiveInt | None = None
    "Accelerators that share the domain; 1 where peers only meet over PCIe."
    unidirectional_gb_s_per_gpu: PositiveFloat | None = None
    achievable_gb_s: PositiveFloat | None = None
    "Measured on this node."
    per_peer_gb_s: PositiveFloat | None = None
    "Of one link in a full mesh."
    topology: str | None = None


class Nics(Sourced):
    """Compute NICs of the whole node (storage NICs left out), Gbit/s each, unidirectional."""

    count: PositiveInt | None = None
    gbit_s: PositiveFloat | None = None
    achievable_gb_s_per_gpu: PositiveFloat | None = None
    type: str | None = None


class NodePower(Sourced):
    """Power of the node or rack.

    ``max_kw`` is the system's maximum (datasheet), not a draw; ``all_in_kw_per_gpu`` is provisioned utility power with
    CPU, network and facility overhead inside (do not multiply it by PUE).
    """

    max_kw: PositiveFloat | None = None
    max_kw_low: PositiveFloat | None = None
    "Lower end where sources give a range."
    all_in_kw_per_gpu: PositiveFloat | None = None
    gpu_tgp_w: PositiveFloat | None = None


class RailPod(Strict):
    """Rail-optimised pod: how many servers share the leaf switches."""

    servers: PositiveInt
    leaf_switches: PositiveInt | None = None
    spine_switches: PositiveInt | None = None
    source: str


class Node(Strict):
    """A server, or a rack where the rack is one scale-up domain."""

    id: str
    name: str
    accelerator: str
    "Id in hardware_db/accelerators/."
    accelerator_variants: tuple[str, ...] = ()
    "Other accelerators sold in the same node."
    gpus: PositiveInt
    "Accelerators in the node or rack."
    gpus_per_host: PositiveInt | None = None
    "Accelerators of one host (tray) where the unit is a rack."
    gpus_per_rack: PositiveInt | None = None
    "Accelerators that one rack holds, where that is known of the unit itself."
    scale_up: NodeScaleUp = NodeScaleUp()
    nics: Nics | None = None
    rails: PositiveInt | None = None
    rail_pod: RailPod | None = None
    power: NodePower = NodePower()
    cpu: str | None = None
    host_memory_gb: PositiveFloat | None = None
    cooling: str | None = None
    disagreements: tuple[str, ...] = ()
    not_sourced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = Field(min_length=1)
