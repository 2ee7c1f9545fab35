"""The facts of a catalogue entry in words: name, value with its unit, how it is known and from where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.catalog.hardware_spec import Accelerator, Node, Sourced
from planner.catalog.prices import Rental
from planner.ui.i18n import _
from planner.ui.numbers import count as whole
from planner.ui.numbers import dollars, sig
from planner.ui.phrases import translated
from planner.ui.text import pair

PROVENANCE = ("status", "source", "date", "note", "usable_status", "usable_source")
DIGITS = 4


@dataclass(frozen=True)
class Fact:
    """A value of an entry; ``value`` None is not sourced."""

    key: str
    """As in the entry's file: group and field."""
    value: str | None
    source: str
    """How it is known, and from where."""

    @property
    def name(self) -> str:
        """In words; the key of a field that has none."""
        return names().get(self.key, (self.key, ""))[0]


def names() -> dict[str, tuple[str, str]]:
    """Key of the file -> what it is, and its unit."""
    tflops, gb_s = "TFLOP/s", "GB/s"
    return {
        "vendor": (_("Vendor"), ""),
        "arch": (_("Generation"), ""),
        "form_factor": (_("Form"), ""),
        "tflops_dense.fp32_vector": (_("Peak in fp32, vector units"), tflops),
        "tflops_dense.tf32": (_("Peak in tf32"), tflops),
        "tflops_dense.bf16": (_("Peak in bf16"), tflops),
        "tflops_dense.fp8": (_("Peak in fp8"), tflops),
        "tflops_dense.int8": (_("Peak in int8"), "TOP/s"),
        "tflops_dense.fp4": (_("Peak in fp4"), tflops),
        "memory.type": (_("Kind of memory"), ""),
        "memory.gb_sold": (_("Memory as sold"), "GB"),
        "memory.gib_usable": (_("Memory that programs can use"), "GiB"),
        "memory.bandwidth_gb_s": (_("Memory bandwidth"), gb_s),
        "scale_up.type": (_("Fast links"), ""),
        "scale_up.unidirectional_gb_s": (_("Fast links, one direction"), gb_s),
        "scale_up.unidirectional_gb_s_per_gpu": (_("Fast links of a GPU, one direction"), gb_s),
        "scale_up.achievable_gb_s": (_("Fast links, reached on this node"), gb_s),
        "scale_up.per_peer_gb_s": (_("Fast link to one peer"), gb_s),
        "scale_up.domain_size": (_("GPUs that fast links can join"), ""),
        "scale_up.domain": (_("GPUs in the fast domain"), ""),
        "scale_up.topology": (_("How fast links are laid"), ""),
        "scale_out_nic.gbit_s_per_gpu": (_("Network of a GPU"), "Gbit/s"),
        "pcie.gen": (_("PCIe generation"), ""),
        "pcie.unidirectional_gb_s": (_("PCIe, one direction"), gb_s),
        "power_w.tdp": (_("Power limit (TDP)"), "W"),
        "chip.sm_count": (_("Compute units"), ""),
        "chip.l2_mb": (_("Last-level cache"), "MB"),
        "measured.bf16_mamf_tflops": (_("Matrix products in bf16, measured"), tflops),
        "measured.fp8_mamf_tflops": (_("Matrix products in fp8, measured"), tflops),
        "measured.memory_bandwidth_gb_s": (_("Memory bandwidth, measured"), gb_s),
        "measured.nvlink_gb_s": (_("Fast links, measured"), gb_s),
        "measured.nvlink_pair_gb_s": (_("Fast links between two GPUs, measured"), gb_s),
        "measured.pcie_gb_s": (_("PCIe, measured"), gb_s),
        "measured.rdma_gb_s": (_("Network (RDMA), measured"), gb_s),
        "accelerator": (_("Accelerator"), ""),
        "gpus": (_("GPUs in the node"), ""),
        "gpus_per_host": (_("GPUs of one host"), ""),
        "gpus_per_rack": (_("GPUs in a rack"), ""),
        "rails": (_("Rails"), ""),
        "nics.count": (_("NICs in the node"), ""),
        "nics.gbit_s": (_("Speed of a NIC"), "Gbit/s"),
        "nics.achievable_gb_s_per_gpu": (_("Network of a GPU, reached"), gb_s),
        "nics.type": (_("Kind of NIC"), ""),
        "power.max_kw": (_("Most power of the node"), "kW"),
        "power.max_kw_low": (_("Most power, lower end of the range"), "kW"),
        "power.all_in_kw_per_gpu": (_("Provisioned power of a GPU, facility included"), "kW"),
        "power.gpu_tgp_w": (_("Power limit of a GPU in this node"), "W"),
        "cpu": (_("CPU"), ""),
        "host_memory_gb": (_("Host memory"), "GB"),
        "cooling": (_("Cooling"), ""),
    }


def facts(entry: Accelerator | Node) -> list[Fact]:
    """Every value of an entry in the file's order."""
    out: list[Fact] = []
    for name, value in entry:
        if isinstance(value, Sourced):
            out += _group(name, value)
        elif isinstance(value, str | int | float) and name not in ("id", "name"):
            out.append(Fact(name, _text(name, value), ""))
    return out


def _group(name: str, group: Sourced) -> Iterator[Fact]:
    for field, value in group:
        if field in PROVENANCE:
            continue
        key = f"{name}.{field}"
        if value is None:
            yield Fact(key, None, "")
        elif field == "gib_usable":
            usable: Any = group
            yield Fact(key, _text(key, value), _source(usable.usable_status, usable.usable_source, None))
        else:
            yield Fact(key, _text(key, value), _source(group.status, group.source, group.date))


def _source(given: str | None, source: str | None, date: str | None) -> str:
    where = " ".join(part for part in (source and translated(source), f"({date})" if date else None) if part)
    return pair(status(given), where) if given else where


def _text(key: str, value: Any) -> str:
    unit = names().get(key, ("", ""))[1]
    text = sig(value, DIGITS).removesuffix(".0") if isinstance(value, float) else str(value)
    if isinstance(value, float) and value.is_integer():
        text = whole(value)
    return f"{text} {unit}".strip()


def status(given: str | None) -> str:
    """How a value is known, in words."""
    known = {
        "datasheet": _("datasheet"),
        "measured": _("measured"),
        "derived": _("derived"),
        "assumed": _("assumed"),
    }
    return known.get(given or "", given or "")


def price(rental: Rental | None) -> Fact:
    """What a plan takes for a GPU-hour where no price is given."""
    usd = None if rental is None else rental.typical_usd_per_gpu_hour()
    if rental is None or usd is None:
        return Fact(_("Rent of a GPU-hour"), None, "")
    return Fact(_("Rent of a GPU-hour"), dollars(usd), _source(None, rental.source, rental.date))
