from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_specs import DEEPSEEK_V3, H800, LLAMA_70B

from planner.layout.enumeration import enumerate_layouts
from planner.layout.groups import group_span
from planner.layout.layouts import Layouts
from planner.layout.step_traffic import step_traffic
from planner.layout.traffic import (
    all_gather_bytes,
    all_reduce_bytes,
    expert_bytes,
    expert_communication_time,
    expert_copies,
    expert_tier_bytes,
    pipeline_bytes,
)
from planner.units import GIGA, MICROSECOND, MILLISECOND

SIZES = st.integers(1, 200)


class TestPublishedDecodeLimit:
    """ "Insights into DeepSeek-V3" (ISCA 2025), section 2.3.2: decode limit from expert communication
    alone.
    """

    # dispatch in fp8, combine in bf16; hidden rounded to 7,000; 8 routed + 1 shared expert
    arguments = {"tokens": 32, "destinations": 9, "hidden": 7000, "bytes_per_value": 1 + 2}
    micro_batches, layers = 2, 61

    @pytest.mark.parametrize(("gb_s", "micros", "millis"), [(50, 120.96, 14.76), (900, 6.72, 0.82)])
    def test_times(self, gb_s: float, micros: float, millis: float) -> None:
        one = float(expert_communication_time(**self.arguments, bandwidth=gb_s * GIGA))
        assert one == pytest.approx(micros * MICROSECOND, rel=1e-9)
        step = one * self.micro_batches * self.layers
        assert step / MILLISECOND == pytest.approx(millis, abs=0.005)

    def test_tokens_per_second(self) -> None:
        one = expert_communication_time(**self.arguments, bandwidth=50 * GIGA)
        assert int(1.0 / (one * self.micro_batches * self.layers)) == 67

    def test_dispatch_and_combine_add_up(self) -> None:
        parts = [expert_bytes(32, 9, 7000, b) for b in (1, 2)]
        assert sum(parts) == pytest.approx(float(expert_bytes(32, 9, 7000, 3)))


@given(SIZES, st.integers(1, 32), st.integers(1, 32), st.floats(1.0, 1e12))
def test_collectives_conserve_bytes_over_tiers(size: int, stride: int, domain: int, payload: float) -> None:
    span = group_span(size, stride, domain)
    flat = payload * (1.0 - 1.0 / size)
    assert all_reduce_bytes(payload, span).total == pytest.approx(2.0 * flat)
    assert all_gather_bytes(payload, span).total == pytest.approx(flat)
    for found in (all_reduce_bytes(payload, span), all_gather_bytes(payload, span)):
        assert found.scale_up >= 0
        assert found.scale_out >= -1e-9
        if span.domains == 1:
            assert found.scale_out == pytest.approx(0.0)


@given(SIZES, st.integers(1, 16), st.integers(1, 64))
def test_expert_copies_conserve(size: int, stride: int, domain: int) -> None:
    span = group_span(size, stride, domain)
    direct = expert_copies(span, 256, 8, 8, 4, relay=False)
    assert direct.total == pytest.approx(8 * (1 - 1 / size))
    relayed = expert_copies(span, 256, 8, 8, 4, relay=True)
    assert relayed.scale_out <= direct.scale_out + 1e-9
    assert relayed.scale_up >= -1e-9
    assert relayed.scale_out >= -1e-9


def test_node_limited_routing_against_sampling() -> None:
    """DeepSeek-V3 over EP64 on 8 nodes: copies by a relay of one per node, counted on sampled routes."""
    rng = np.random.default_rng(11)
    draws, nodes, per_node = 20_000, 8, 8
    groups = np.argsort(rng.random((draws, 8)), axis=1)[:, :4]
    inside = np.argsort(rng.random((draws, 128)), axis=1)[:, :8]
    experts = np.take_along_axis(groups, inside // 32, axis=1) * 32 + inside % 32
    home = rng.integers(0, nodes * per_node, draws)
    hit = np.zeros((draws, nodes * per_node), dtype=bool)
    np.put_along_axis(hit, experts * nodes * per_node // 256, True, axis=1)
    by_node = hit.reshape(draws, nodes, per_node)
    remote = by_node.any(axis=2)
    remote[np.arange(draws), home // per_node] = False
    landing = by_node[:, :, :].copy()
    landing[np.arange(draws), :, home % per_node] = False  # lands on the same rail, needs no second copy
    found = expert_copies(group_span(64, 1, 8), 256, 8, 8, 4, relay=True)
    assert float(found.scale_out) == pytest.approx(remote.sum(axis=1).mean(), rel=0.02)
    assert float(found.scale_up) == pytest.approx(landing.sum(axis=(1, 2)).mean(), rel=0.02)


def test_relay_saves_network_bytes() -> None:
    span = group_span(32, 1, 8)
    direct, relayed = (expert_copies(span, 256, 8, 8, 4, relay=r) for r in (False, True))
    assert float(direct.scale_out) == pytest.approx(6.0)
    assert float(relayed.scale_out) < 3.0
    sent = expert_tier_bytes(128, relayed, 7168, 1)
    assert float(sent.total) == pytest.approx(128 * 7168 * float(relayed.total))


def test_pipeline_sends() -> None:
    span = group_span(4, 8, 8)
    sent = pipeline_bytes(100, 8192, 2, span, tp=8)
    assert float(sent.scale_out) == pytest.approx(100 * 8192 * 2 / 8 * 3 / 4)
    assert float(sent.scale_up) == 0.0


WIRE = {"activation_bytes": 2.0, "dispatch_bytes": 1.0, "combine_bytes": 2.0}


def test_step_traffic_of_a_dense_model() -> None:
    """Two all-reduces a layer: 80 layers x 2 x 2 (8 - 1) / 8 of 64 tokens x 8192 bf16 values."""
    found = step_traffic(LLAMA_70B, Layouts.of(tp=8), H800, 64, dispatch="gather", **WIRE)
    expected = 80 * 2 * 2 * (7 / 8) * 64 * 8192 * 2
    assert found["tp_all_reduce"].total[0] == pytest.approx(expected)
    assert float(found["pp_send"].total[0]) == 0.0


def test_step_traffic_of_wide_ep() -> None:
    layouts = Layouts.of(attention_dp=[32, 144], ep=[32, 144], redundant_experts=32)
    relay = step_traffic(DEEPSEEK_V3, layouts, H800, 128, dispatch="relay", **WIRE)
    direct = step_traffic(DEEPSEEK_V3, layouts, H800, 128, dispatch="direct", **WIRE)
    gather = step_traffic(DEEPSEEK_V3, layouts, H800, 128, dispatch="gather", **WIRE)
    assert (relay["tp_all_reduce"].total == 0).all()
    assert relay["moe_combine"].total == pytest.approx(2 * relay["moe_dispatch"].total)
    assert (relay["moe_dispatch"].scale_out < direct["moe_dispatch"].scale_out).all()
    assert (gather["moe_gather"].total > direct["moe_dispatch"].total).all()
    assert (gather["moe_dispatch"].total == 0).all()


def test_step_traffic_scales_with_tokens() -> None:
    layouts, _ = enumerate_layouts(DEEPSEEK_V3, H800, 64, "sglang")
    for dispatch in ("gather", "direct", "relay"):
        one, two = (step_traffic(DEEPSEEK_V3, layouts, H800, n, dispatch=dispatch, **WIRE) for n in (16, 32))
        for kind in one:
            assert np.allclose(two[kind].total, 2 * one[kind].total)
            assert (one[kind].scale_up >= 0).all()
            assert (one[kind].scale_out >= -1e-9).all()
            inside = layouts.gpus <= 8
            assert np.allclose(one[kind].scale_out[inside], 0.0)
