"""The tiers of a node's fabric: the scale-up domain, then the network between domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.hardware.curves import fallback_rules
from planner.hardware.device import device

if TYPE_CHECKING:
    from planner.catalog.hardware_spec import Accelerator, Node


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier: ranks it connects (None: any number), B/s per GPU and way, seconds to the first byte."""

    name: str
    size_ranks: int | None
    bandwidth: float
    latency_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Fabric:
    """Tiers from the fastest out; ``domain`` ranks share the first. ``missing`` names what was not sourced."""

    node: str
    domain: int
    tiers: tuple[Tier, ...]
    missing: tuple[str, ...]

    def tier(self, name: str) -> Tier:
        """The tier called ``name`` (scale_up, pcie or network); raises where the node has none."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise InputError(f"fabric of {self.node}", name, f"tiers known: {', '.join(t.name for t in self.tiers)}")


def fabric(node: Node, accelerator: Accelerator) -> Fabric:
    """The fabric of ``node``; without a scale-up link the host's PCIe is the first tier and spans the node."""
    here = device(accelerator, node)
    latency = fallback_rules()["tier_latency"]
    tiers: list[Tier] = []
    missing: list[str] = []
    domain = node.scale_up.domain or accelerator.scale_up.domain_size or node.gpus
    if here.link_bw is not None:
        source = node.scale_up.source or accelerator.scale_up.source or ""
        tiers.append(Tier("scale_up", domain, here.link_bw, latency["scale_up_s"], source))
    elif here.pcie_bw is not None:
        domain = node.gpus
        tiers.append(Tier("pcie", domain, here.pcie_bw, latency["pcie_s"], accelerator.pcie.source or ""))
    else:
        missing.append("scale_up.unidirectional_gb_s, pcie.unidirectional_gb_s")
    if here.nic_bw is not None:
        from_node = node.nics is not None and node.nics.count and node.nics.gbit_s
        source = (node.nics.source if node.nics and from_node else accelerator.scale_out_nic.source) or ""
        tiers.append(Tier("network", None, here.nic_bw, latency["network_s"], source))
    else:
        missing.append("nics, scale_out_nic.gbit_s_per_gpu")
    return Fabric(node=node.id, domain=domain, tiers=tuple(tiers), missing=tuple(missing))
