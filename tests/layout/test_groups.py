from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.layout.groups import group_span, layout_groups, layout_spans
from planner.layout.layouts import Layouts
from planner.layout.node_shape import NodeShape


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 16), st.integers(0, 40))
def test_span_against_counting(size: int, stride: int, domain: int, start: int) -> None:
    found = group_span(size, stride, domain, start)
    home = (start + np.arange(size) * stride) // domain
    counts = np.unique(home, return_counts=True)[1]
    assert int(found.domains) == counts.size
    assert int(found.ranks_per_domain) >= counts.max()
    if start % domain == 0:
        assert int(found.ranks_per_domain) == counts.max()


def test_span_broadcasts() -> None:
    found = group_span([8, 16, 32], [[1], [2]], 8)
    assert found.domains.tolist() == [[1, 2, 4], [2, 4, 8]]
    assert found.size.shape == (2, 3)


def test_groups_of_a_layout() -> None:
    layouts = Layouts.of(tp=4, attention_dp=8, ep=16, pp=2)
    sizes = {k: (int(s[0]), int(t[0])) for k, (s, t) in layout_groups(layouts).items()}
    assert sizes == {"tp": (4, 1), "attention_dp": (8, 4), "moe_tp": (2, 1), "ep": (16, 2), "pp": (2, 32)}
    spans = layout_spans(layouts, NodeShape("n", 8, 8))
    assert {k: int(s.domains[0]) for k, s in spans.items()} == {
        "tp": 1, "attention_dp": 4, "moe_tp": 1, "ep": 4, "pp": 2,
    }  # fmt: skip
