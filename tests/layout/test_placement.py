from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_specs import DEEPSEEK_V3, H800, L40S, NVL72

from planner.errors import InputError
from planner.layout.enumeration import enumerate_layouts
from planner.layout.layouts import Layouts
from planner.layout.node_shape import NodeShape
from planner.layout.placement import COORDINATES, place


def test_tp_groups_fill_a_node_and_ep_spans_them() -> None:
    placed = place(Layouts.of(tp=4, attention_dp=8, ep=32), H800)
    assert placed.node.tolist() == [r // 8 for r in range(32)]
    assert placed.groups("tp").shape == (8, 4)
    assert all(len(set(placed.node[g])) == 1 for g in placed.groups("tp"))
    assert placed.groups("ep").tolist() == [list(range(32))]
    assert placed.groups("attention_dp")[0].tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert placed.rail is not None
    assert placed.rail[:8].tolist() == list(range(8))


def test_pipeline_is_outermost_and_moe_tp_innermost() -> None:
    placed = place(Layouts.of(tp=8, ep=4, pp=2), H800)
    assert placed.coordinates["pp"].tolist() == [0] * 8 + [1] * 8
    assert placed.coordinates["moe_tp"][:4].tolist() == [0, 1, 0, 1]
    assert placed.coordinates["ep"][:8].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_small_workers_share_a_node() -> None:
    gpus = [place(Layouts.of(tp=2), H800, worker=w) for w in range(5)]
    assert [p.gpu.tolist() for p in gpus] == [[0, 1], [2, 3], [4, 5], [6, 7], [0, 1]]
    assert [int(p.node[0]) for p in gpus] == [0, 0, 0, 0, 1]


def test_rack_scale_and_pcie_domains() -> None:
    assert set(place(Layouts.of(attention_dp=72, ep=72), NVL72).domain.tolist()) == {0}
    assert set(place(Layouts.of(tp=8), L40S).domain.tolist()) == {0}
    assert place(Layouts.of(tp=2), NodeShape("x", 8, 8)).rail is None


def test_export_is_plain_data() -> None:
    data = place(Layouts.of(tp=8, ep=8), H800).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["ranks"][5]["rail"] == 5
    assert set(data["groups"]) == {"tp", "ep"}


def test_refuses_what_cannot_be_placed() -> None:
    with pytest.raises(InputError, match="exactly one"):
        place(Layouts.of(tp=[1, 2]), H800)
    with pytest.raises(InputError, match="whole number of nodes"):
        place(Layouts.of(tp=4, pp=3), H800)
    with pytest.raises(InputError, match="allowed"):
        place(Layouts.of(tp=4), H800).groups("sp")


LEGAL, _ = enumerate_layouts(DEEPSEEK_V3, H800, 64, "sglang")


@given(st.integers(0, len(LEGAL) - 1), st.integers(0, 3))
def test_every_group_kind_partitions_the_ranks(i: int, worker: int) -> None:
    layout = LEGAL.take([i])
    placed = place(layout, H800, worker)
    n = int(layout.gpus[0])
    slots = placed.node * H800.gpus + placed.gpu
    assert np.array_equal(np.unique(slots), np.sort(slots))
    for kind in COORDINATES:
        groups = placed.groups(kind)
        assert np.array_equal(np.sort(groups.ravel()), np.arange(n))
        assert groups.shape[1] == layout.row(0)[kind]
        assert np.array_equal(
            placed.coordinates[kind][groups], np.broadcast_to(np.arange(groups.shape[1]), groups.shape)
        )
    assert all(len(set(placed.domain[g])) == 1 for g in placed.groups("tp"))
