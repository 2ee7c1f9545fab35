"""What is conserved: parameters over ranks, bytes over tiers, memory over terms; and what is monotone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.layout.node_shape import NodeShape
from planner.layout.step_traffic import Dispatch, step_traffic
from planner.memory.budget import MemoryBudget, memory_budget
from planner.memory.sharding import Shards, rank_tensor
from planner.model.builder import tensors
from planner.model.parameters import count
from planner.model.precision import PrecisionPlan

MODELS = ("deepseek-v3", "qwen3-32b", "llama-3.3-70b", "gpt-oss-120b", "qwen3-next-80b-a3b", "gemma-3-27b")
ENGINES = ("vllm", "sglang", "trtllm")
LAYOUTS = ({"tp": 8}, {"tp": 1, "attention_dp": 8, "ep": 8}, {"tp": 4, "pp": 2}, {"tp": 2, "attention_dp": 4, "ep": 8})


def _shards(tp: int) -> Shards:
    ranks, one = np.array([tp]), np.array([1])
    return Shards(ranks, ranks, ranks, ranks, one, np.array([0]), vocab_padding_rows=1)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from([1, 2, 3, 4, 6, 8, 16]))
def test_tensor_parallel_ranks_hold_every_parameter(model: str, tp: int) -> None:
    """Never fewer than the model has; exactly as many where every split tensor divides into whole units."""
    held = exact = 0
    spec = catalog().model(model)
    for tensor in (t for t in tensors(spec) if t.part == "main"):
        one = rank_tensor(tensor, _shards(tp))
        whole = tensor.rows * tensor.cols * tensor.copies
        mine = int(one.rows[0]) * int(one.cols[0]) * int(one.copies[0])
        split = mine < whole or tp == 1
        assert mine * tp >= whole, tensor
        held += tensor.layers * (mine * tp if split else whole)
        exact += tensor.layers * whole
        units = tensor.granularity if tensor.granularity > 1 else max(tensor.rows, tensor.cols)
        if split and units % tp == 0 and tensor.rows % tp == 0 and tensor.cols % tp == 0:
            assert mine * tp == whole, tensor
    assert exact == count(spec).main
    assert held >= exact


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.sampled_from(["gather", "direct"]),
    st.sampled_from([(8, 1, 1), (4, 4, 1), (1, 16, 1), (2, 8, 2), (1, 64, 1)]),
    st.sampled_from([1, 2, 4, 8, 16, 64, 128]),
    st.floats(1.0, 4096.0),
)
def test_bytes_sent_do_not_depend_on_where_ranks_lie(
    model: str, dispatch: Dispatch, sizes: tuple[int, int, int], domain: int, tokens: float
) -> None:
    """Tiers add up to the same bytes however large a node is: placement moves traffic, it makes none."""
    tp, dp, pp = sizes
    spec = catalog().model(model)
    layout = Layouts.of(tp=tp, attention_dp=dp, pp=pp, ep=tp * dp)
    totals = []
    for size in (domain, 4096):
        node = NodeShape("any", size, size, size)
        found = step_traffic(
            spec, layout, node, tokens, dispatch=dispatch, activation_bytes=2, dispatch_bytes=1, combine_bytes=2
        )
        totals.append({kind: float(t.total[0]) for kind, t in found.items()})
        assert all(float(t.scale_up[0]) >= -1e-6 and float(t.scale_out[0]) >= -1e-6 for t in found.values())
    assert totals[0] == pytest.approx(totals[1], rel=1e-9, abs=1e-6)


def _budget(model: str, engine: str, layout: dict[str, int], seqs: int, tokens: int, context: int) -> MemoryBudget:
    spec = catalog().model(model)
    node = catalog().node("dgx-h200")
    return memory_budget(
        spec,
        PrecisionPlan.from_checkpoint(spec),
        Layouts.of(**layout),
        device(catalog().accelerator(node.accelerator), node),
        engine,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        needed_tokens=context,
        needed_sequences=seqs,
    )


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.sampled_from(ENGINES),
    st.sampled_from(LAYOUTS),
    st.integers(1, 1024),
    st.integers(256, 32_768),
    st.integers(1, 100_000),
    st.integers(0, 1000),
    st.integers(0, 100_000),
)
def test_memory_grows_with_batch_and_context(
    model: str,
    engine: str,
    layout: dict[str, int],
    seqs: int,
    tokens: int,
    context: int,
    more_seqs: int,
    more_context: int,
) -> None:
    base = _budget(model, engine, layout, seqs, tokens, context)
    wider = _budget(model, engine, layout, seqs + more_seqs, tokens, context)
    longer = _budget(model, engine, layout, seqs, tokens, context + more_context)
    for other in (wider, longer):
        assert float(other.needed_kv[0]) >= float(base.needed_kv[0])
        assert float(other.total[0]) >= float(base.total[0]) * (1 - 1e-12)
        assert not (bool(other.fits[0]) and not bool(base.fits[0]))
    fits, fewer = float(base.sequences(context)[0]), float(longer.sequences(context + more_context)[0])
    # Where weights alone do not fit, both are below zero: room that is missing, counted in requests of either length.
    assert fewer <= fits * (1 + 1e-12) if fits > 0 else fewer <= 0
    parts = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")
    assert sum(float(base.term(p)[0]) for p in parts) == pytest.approx(float(base.capacity[0]))
