"""Where every rank of one worker lies: node, GPU, NIC and rail, and its coordinates in every group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.errors import InputError
from planner.layout.groups import layout_groups
from planner.layout.layouts import IntArray, Layouts
from planner.layout.node_shape import NodeShape, node_shape

COORDINATES = ("tp", "attention_dp", "pp", "moe_tp", "ep")


@dataclass(frozen=True)
class Placement:
    """One worker on its nodes; every array has shape (ranks,), in rank order."""

    node_type: NodeShape
    layout: dict[str, int]
    node: IntArray
    """Node index, counted from the first node that the deployment uses."""
    gpu: IntArray
    """GPU index inside the node."""
    domain: IntArray
    """Fast domain: the scale-up domain, or the node where that is PCIe."""
    nic: IntArray | None
    """NIC index inside the node that serves the GPU; None where the NICs are not sourced."""
    coordinates: dict[str, IntArray]
    """Rank inside each group kind: tp, attention_dp, pp, moe_tp, ep."""

    @property
    def rail(self) -> IntArray | None:
        """Rail of each rank: same-index NICs of all nodes share a leaf switch (rail-optimised fabric)."""
        return self.nic

    def groups(self, kind: str) -> IntArray:
        """Ranks of every group of a kind, (groups, size): the ranks that communicate with each other."""
        if kind not in COORDINATES:
            raise InputError("group", kind, f"allowed: {', '.join(COORDINATES)}")
        layouts = Layouts.of(**self.layout)
        size, stride = (int(a[0]) for a in layout_groups(layouts)[kind])
        ranks = np.arange(self.node.size, dtype=np.int64)
        return ranks.reshape(-1, size, stride).swapaxes(1, 2).reshape(-1, size)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for export: one entry a rank, and the groups with more than one member."""
        rail = self.rail
        ranks = [
            {
                "rank": i,
                "node": int(self.node[i]),
                "gpu": int(self.gpu[i]),
                "domain": int(self.domain[i]),
                "nic": None if self.nic is None else int(self.nic[i]),
                "rail": None if rail is None else int(rail[i]),
                **{f"{kind}_rank": int(self.coordinates[kind][i]) for kind in COORDINATES},
            }
            for i in range(self.node.size)
        ]
        sizes = Layouts.of(**self.layout).row(0)
        return {
            "node_type": self.node_type.id,
            "layout": dict(self.layout),
            "ranks": ranks,
            "groups": {kind: self.groups(kind).tolist() for kind in COORDINATES if sizes[kind] > 1},
        }


def place(layouts: Layouts, node: Any, worker: int = 0) -> Placement:
    """Rank map of a single layout (a Layouts of size 1) for the ``worker``-th replica.

    Ranks run tp, then attention_dp, then pp over consecutive GPUs, so that a tp group fills the fastest
    domain before anything else does. Workers smaller than a node share it as long as they fit whole;
    larger ones take whole nodes. Raises InputError for more than one layout or a worker that is not a
    whole number of nodes.
    """
    if len(layouts) != 1:
        raise InputError("layout", f"{len(layouts)} layouts", "exactly one")
    shape = node_shape(node)
    gpus, row = int(layouts.gpus[0]), layouts.row(0)
    rank = np.arange(gpus, dtype=np.int64)
    if gpus <= shape.gpus:
        per_node = shape.gpus // gpus
        node_index = np.full(gpus, worker // per_node, dtype=np.int64)
        gpu = worker % per_node * gpus + rank
    else:
        if gpus % shape.gpus:
            raise InputError("layout", row, f"a whole number of nodes of {shape.gpus} GPUs")
        node_index = worker * (gpus // shape.gpus) + rank // shape.gpus
        gpu = rank % shape.gpus
    nic = None
    if shape.nics:
        nic = gpu * shape.nics // shape.gpus
    stage = rank % (row["tp"] * row["attention_dp"])
    return Placement(
        node_type=shape,
        layout=row,
        node=node_index,
        gpu=gpu,
        domain=(node_index * shape.gpus + gpu) // shape.tp_domain,
        nic=nic,
        coordinates={
            "tp": rank % row["tp"],
            "attention_dp": stage // row["tp"],
            "pp": rank // (row["tp"] * row["attention_dp"]),
            "moe_tp": stage % row["moe_tp"],
            "ep": stage // row["moe_tp"],
        },
    )
