from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

from planner.catalog import Catalog
from planner.model.builder import tensors
from planner.model.tensors import Tensor


def gemms(cat: Catalog, model: str) -> dict[tuple[str, int, str], list[Tensor]]:
    found: dict[tuple[str, int, str], list[Tensor]] = defaultdict(list)
    for tensor in tensors(cat.model(model)):
        if tensor.gemm is not None:
            found[tensor.part, tensor.group, tensor.gemm].append(tensor)
    return found


def test_fused_gemms_share_inputs_and_layers(cat: Catalog) -> None:
    for model in cat.model_ids():
        for key, parts in gemms(cat, model).items():
            assert len({(t.cols, t.layers, t.copies) for t in parts}) == 1, (model, key)


def test_deepseek_v3_attention_gemms(cat: Catalog) -> None:
    found = gemms(cat, "deepseek-v3")
    shapes = {
        key[2]: (sum(t.rows for t in parts), parts[0].cols) for key, parts in found.items() if key[:2] == ("main", 1)
    }
    assert shapes["qkv_a"] == (1536 + 576, 7168)
    assert shapes["q_b"] == (128 * 192, 1536)
    assert shapes["kv_b"] == (128 * 256, 512)
    assert shapes["o"] == (7168, 128 * 128)
    assert shapes["experts_gate_up"] == (2 * 2048, 7168)
    assert shapes["shared_down"] == (7168, 2048)
    assert shapes["router"] == (256, 7168)


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("llama-3.1-8b", {"qkv", "o", "gate_up", "down", "head"}),
        ("deepseek-v2-lite", {"q", "kv_a", "kv_b", "o", "gate_up", "down", "router", "experts_gate_up", "experts_down",
                              "shared_gate_up", "shared_down", "head"}),
        ("qwen3-next-80b-a3b", {"linear_in", "linear_ba", "linear_out", "qkv", "o", "router", "shared_gate",
                                "shared_gate_up", "shared_down", "experts_gate_up", "experts_down", "mtp_proj",
                                "head"}),
        ("gemma-2-27b", {"qkv", "o", "gate_up", "down", "head"}),
    ],
)  # fmt: skip
def test_gemm_keys(cat: Catalog, model: str, keys: set[str]) -> None:
    assert {t.gemm for t in tensors(cat.model(model)) if t.gemm} == keys


def test_indexer_gemms_are_in_v3_2_only(cat: Catalog) -> None:
    keys = {t.gemm for t in tensors(cat.model("deepseek-v3.2"))}
    assert {"index_q", "index_k"} <= keys
    assert not {"index_q", "index_k"} & {t.gemm for t in tensors(cat.model("deepseek-v3"))}


def test_granularity_counts_whole_units(cat: Catalog) -> None:
    for model in cat.model_ids():
        for tensor in tensors(cat.model(model)):
            split = tensor.cols if tensor.shard in ("row", "experts_row") else tensor.rows
            if tensor.shard != "replicated":
                assert split % tensor.granularity == 0, (model, tensor)


def test_layers_of_groups_cover_the_model(cat: Catalog) -> None:
    for model in cat.model_ids():
        spec = cat.model(model)
        by_group = {t.group: t.layers for t in tensors(spec) if t.group >= 0}
        assert [by_group[i] for i in range(len(spec.layers))] == [g.count for g in spec.layers]
        assert len(spec.layer_order) == spec.num_layers


def test_layer_order_follows_the_pattern(cat: Catalog) -> None:
    order = cat.model("gemma-3-27b").layer_order
    assert [len(list(run)) for _, run in itertools.groupby(order)][:4] == [5, 1, 5, 1]
    assert cat.model("deepseek-v3").layer_order == (0,) * 3 + (1,) * 58


def test_same_specification_gives_the_same_list(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-8b")
    copy = spec.model_copy(deep=True)
    assert tensors(copy) == tensors(spec)
    assert hash(copy) == hash(spec)
