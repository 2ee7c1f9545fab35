"""The few numbers of a node that layouts and placement need, resolved once from a catalogue node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.errors import InputError


@dataclass(frozen=True)
class NodeShape:
    """Counts of one node or rack."""

    id: str
    gpus: int
    """GPUs in the node (or in the rack, for rack-scale systems)."""
    domain: int
    """GPUs that share one scale-up domain; 1 where there is only PCIe."""
    nics: int | None = None
    """Compute NICs of the node; None where not sourced."""
    host: int | None = None
    """GPUs of one of its hosts (a tray of a rack); None where the node is one host."""

    def __post_init__(self) -> None:
        for field in ("gpus", "domain"):
            if getattr(self, field) < 1:
                raise InputError(f"node.{field}", getattr(self, field), "at least 1")

    @property
    def tp_domain(self) -> int:
        """GPUs reachable without the network: the scale-up domain or, where that is PCIe, the whole node."""
        return max(self.domain, self.gpus)


def node_shape(node: Any) -> NodeShape:
    """The shape of a catalogue node (``.id``, ``.gpus``, ``.scale_up.domain``, ``.nics.count``).

    Raises InputError where the scale-up domain is not known: a layout cannot be judged without it.
    """
    if isinstance(node, NodeShape):
        return node
    scale_up = getattr(node, "scale_up", None)
    domain = getattr(scale_up, "domain", None)
    if domain is None:
        raise InputError(f"node {node.id}", "scale_up.domain is missing", "the size of its scale-up domain")
    nics = getattr(getattr(node, "nics", None), "count", None)
    return NodeShape(id=node.id, gpus=int(node.gpus), domain=int(domain), nics=None if nics is None else int(nics))
