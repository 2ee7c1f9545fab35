"""A model's operator list agrees with its tensors: parameters, layers, merged groups."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog import catalog
from planner.model.parameters import count
from planner.roofline.program import program

ONE = np.ones(1)


@pytest.mark.parametrize("model", catalog().model_ids())
def test_gemms_and_experts_hold_the_parameters(model: str) -> None:
    """Matrices of all operators are the main model's parameters, up to norms, biases and the embedding."""
    spec = catalog().model(model)
    found = program(spec)
    dense = sum(g.layers * float(np.ravel(g.n(ONE) * g.k(ONE))[0]) for g in found.gemms)
    experts = sum(m.layers * m.spec.experts * 3 * found.hidden * m.spec.expert_intermediate_size for m in found.moes)
    embedding = float(spec.vocab_size) * spec.hidden_size
    total = count(spec).main
    assert dense + experts <= total * 1.001 + embedding
    assert dense + experts >= 0.97 * (total - embedding) - 1e6


@pytest.mark.parametrize("model", catalog().model_ids())
def test_layers_are_counted_once(model: str) -> None:
    spec = catalog().model(model)
    found = program(spec)
    assert sum(a.layers for a in found.attentions) == found.layers == sum(g.count for g in spec.layers)
    assert sum(m.layers for m in found.moes) == found.moe_layers


def test_equal_groups_are_merged() -> None:
    """DeepSeek-V3's 3 dense and 58 expert layers share their attention."""
    found = program(catalog().model("deepseek-v3"))
    assert [a.layers for a in found.attentions] == [61]
    assert found.dense_layers == 3
    assert len(found.gemms) <= 16


def test_kv_projections_stop_splitting_at_their_heads() -> None:
    """Llama-3.1-70B has 8 KV heads: 16 ranks hold as much K and V each as 8 do."""
    qkv = next(g for g in program(catalog().model("llama-3.1-70b")).gemms if any(p[1] == "kv_column" for p in g.parts))
    eight, sixteen = qkv.n(np.array([8.0, 16.0]))
    assert eight == 8192 / 8 + 2 * 128
    assert sixteen == 8192 / 16 + 2 * 128
