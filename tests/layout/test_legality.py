from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_specs import DEEPSEEK_V3, H800, L40S, LLAMA_70B, MINIMAX_M2, PHI_4

from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError, UnknownNameError
from planner.layout.enumeration import enumerate_layouts
from planner.layout.layouts import Layouts
from planner.layout.legality import legal
from planner.layout.node_shape import NodeShape, node_shape
from planner.layout.rules import RULES


def reason(spec: ModelSpec, engine: str, node: NodeShape = H800, **layout: int) -> str:
    mask, reasons = legal(spec, Layouts.of(**layout), node, engine)
    rule = reasons.rule_of(0)
    assert (rule is None) == bool(mask[0])
    return "" if rule is None else rule.id


@pytest.mark.parametrize(
    ("spec", "engine", "layout", "expected"),
    [
        (DEEPSEEK_V3, "vllm", {"tp": 8}, ""),
        (DEEPSEEK_V3, "vllm", {"tp": 8, "ep": 8}, ""),
        (DEEPSEEK_V3, "vllm", {"tp": 8, "ep": 4}, "engine_expert_split"),
        (DEEPSEEK_V3, "sglang", {"tp": 8, "ep": 4}, ""),
        (DEEPSEEK_V3, "trtllm", {"attention_dp": 8, "ep": 4}, ""),
        (DEEPSEEK_V3, "trtllm", {"tp": 4, "attention_dp": 2, "ep": 8}, "engine_attention_dp"),
        (DEEPSEEK_V3, "vllm", {"tp": 4, "attention_dp": 2, "ep": 8}, ""),
        (DEEPSEEK_V3, "vllm", {"attention_dp": 144, "ep": 144, "redundant_experts": 32}, ""),
        (DEEPSEEK_V3, "vllm", {"attention_dp": 144, "ep": 144}, "experts_not_divisible"),
        (DEEPSEEK_V3, "vllm", {"tp": 16, "ep": 16}, "tp_leaves_the_domain"),
        (DEEPSEEK_V3, "vllm", {"tp": 4, "pp": 3}, "not_whole_nodes"),
        (DEEPSEEK_V3, "vllm", {"tp": 8, "redundant_experts": 8}, "redundant_experts_not_possible"),
        (DEEPSEEK_V3, "vllm", {"tp": 1, "pp": 64}, "pipeline_stages"),
        (LLAMA_70B, "vllm", {"tp": 8}, ""),
        (LLAMA_70B, "vllm", {"tp": 3}, "heads_not_divisible"),
        (LLAMA_70B, "vllm", {"attention_dp": 2}, "dense_model_is_not_expert_parallel"),
        (PHI_4, "vllm", {"tp": 4}, "kv_heads_not_divisible"),
        (MINIMAX_M2, "vllm", {"tp": 4}, ""),
    ],
)
def test_rules(spec: ModelSpec, engine: str, layout: dict[str, int], expected: str) -> None:
    assert reason(spec, engine, **layout) == expected


@pytest.mark.parametrize(
    ("engine", "drafts", "roles"),
    [
        ("sglang", "mtp", {"prefill"}),
        ("sglang", "eagle3", set()),
        ("trtllm", "mtp", set()),
        ("vllm", "mtp", {"serve", "prefill", "decode"}),
        ("sglang", None, {"serve", "prefill", "decode"}),
    ],
)
def test_who_drafts_over_pipeline_stages(engine: str, drafts: Any, roles: set[str]) -> None:
    """SGLang 0.5.23 asserts it at start; TensorRT-LLM's feature matrix says no."""
    layouts = Layouts.of(tp=8, pp=[1, 2])
    for role in ("serve", "prefill", "decode"):
        mask, why = legal(DEEPSEEK_V3, layouts, H800, engine, drafts=drafts, role=role)
        assert mask[0], "one stage always may"
        assert mask[1] == (role in roles)
        if role not in roles:
            assert why.counts() == {"speculation_over_stages": 1}


def test_kv_heads_replicate_when_tp_exceeds_them() -> None:
    assert reason(LLAMA_70B, "vllm", NodeShape("rack", 16, 16), tp=16) == ""


def test_deepseek_tp32_breaks_on_its_dense_width() -> None:
    """sgl-project/sglang issue 3345: 18432 / 32 = 576 is not divisible by 128."""
    mask, reasons = legal(DEEPSEEK_V3, Layouts.of(tp=32), H800, "sglang", tp_across_nodes=True)
    assert not mask[0]
    assert "576" in reasons.sentence(0)
    assert reasons.needed[0] == 128


def test_minimax_tp8_breaks_on_its_expert_width() -> None:
    """vllm-project/vllm pull 48173: 1536 / 8 = 192 is not divisible by 128; TP4 and whole experts work."""
    assert reason(MINIMAX_M2, "vllm", tp=8) == "expert_shard_not_aligned"
    assert reason(MINIMAX_M2, "vllm", tp=8, ep=8) == ""
    assert reason(MINIMAX_M2, "trtllm", tp=8) == ""


def test_precision_decides_the_block() -> None:
    bf16 = {"default": "bf16"}
    mask, _ = legal(MINIMAX_M2, Layouts.of(tp=8), H800, "vllm", bf16)
    assert mask[0]


def test_tp16_runs_across_nodes_when_asked() -> None:
    """sgl-project/sglang issue 3361: DeepSeek-V3 TP16 on two 8-GPU H800 nodes."""
    assert legal(DEEPSEEK_V3, Layouts.of(tp=16), H800, "sglang", tp_across_nodes=True)[0][0]


def test_pcie_nodes_keep_tp_inside_the_node() -> None:
    assert reason(LLAMA_70B, "vllm", L40S, tp=8) == ""
    assert reason(LLAMA_70B, "vllm", L40S, tp=16) == "tp_leaves_the_domain"


def test_deepep_needs_whole_experts() -> None:
    mask, reasons = legal(DEEPSEEK_V3, Layouts.of(tp=8, ep=[4, 8]), H800, "sglang", dispatch_backend="deepep")
    assert mask.tolist() == [False, True]
    assert reasons.counts() == {"dispatch_needs_full_ep": 1}


def test_unknown_engine_and_node_without_domain() -> None:
    with pytest.raises(UnknownNameError, match="vllm"):
        legal(DEEPSEEK_V3, Layouts.of(tp=8), H800, "vlm")

    class Bare:
        id = "bare"
        gpus = 8
        scale_up = None

    with pytest.raises(InputError, match="scale_up"):
        node_shape(Bare())


def test_every_rule_has_its_own_id_and_text() -> None:
    assert len({r.id for r in RULES}) == len(RULES)
    assert all(r.fix and r.sentence for r in RULES)
    # two kinds of numbers, of which neither is the other's limit, have no common unit
    assert {r.id for r in RULES if not r.unit} == {r.id for r in RULES if "not_divisible" in r.id} | {"pipeline_stages"}


@given(st.sampled_from(["vllm", "sglang", "trtllm"]), st.sampled_from([DEEPSEEK_V3, LLAMA_70B, MINIMAX_M2]))
def test_enumerated_layouts_are_legal_when_judged_alone(engine: str, spec: ModelSpec) -> None:
    found, _ = enumerate_layouts(spec, H800, 32, engine)
    for i in range(0, len(found), max(1, len(found) // 7)):
        assert legal(spec, found.take([i]), H800, engine)[0][0]
