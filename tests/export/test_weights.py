"""Weights that exports speak of: once on disk, and what flags make a rank hold."""

from __future__ import annotations

import math
import re

import pytest
import yaml
from plans import example, with_layout

from planner.export.engines import sglang
from planner.export.formats import export_text
from planner.export.roles import deployment
from planner.export.weights import checkpoint_gib, has_dense_layers
from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.memory.weights import stage_table
from planner.model.precision import PrecisionPlan
from planner.units import GIB

WIDE = {"attention_dp": 16, "ep": 16}


def test_checkpoint_of_deepseek_v3_is_the_published_files() -> None:
    """688.6 GB of safetensors on the Hub (deepseek-ai/DeepSeek-V3), MTP block and its copies included."""
    assert checkpoint_gib(deployment(example("deepseek-v3-h800"))) == pytest.approx(688.6e9 / GIB, rel=0.01)


def test_llm_d_asks_for_the_checkpoint_once() -> None:
    plan = example("deepseek-v3-h800")
    text = export_text(plan, "llm-d")
    size = yaml.safe_load(text)["modelArtifacts"]["size"]
    assert size == f"{math.ceil(checkpoint_gib(deployment(plan)) * 1.2)}Gi"
    assert "and 20 % more" in text.replace("\n# ", " ")


def test_sglang_keeps_dense_layers_and_head_inside_a_replica() -> None:
    d = deployment(with_layout(example("deepseek-v3-h800"), "disagg", "sglang", attention_dp=88, ep=88))
    for role in d.roles:
        arguments = dict(sglang.settings(d, role).arguments)
        assert arguments["--moe-dense-tp-size"] == 1
        assert "--enable-dp-lm-head" in arguments


@pytest.mark.parametrize("name", ["sglang", "leaderworkerset", "dynamo", "llm-d"])
def test_every_export_for_sglang_has_the_flags(name: str) -> None:
    text = export_text(with_layout(example("deepseek-v3-h800"), "disagg", "sglang", **WIDE), name)
    servers = len(re.findall(r"--tp-size", text))
    assert servers > 0
    assert len(re.findall(r"--moe-dense-tp-size", text.split("set -euo")[-1])) >= servers
    assert len(re.findall(r"--enable-dp-lm-head", text.split("set -euo")[-1])) >= servers


def test_no_such_flags_without_attention_dp_or_dense_layers() -> None:
    d = deployment(with_layout(example("deepseek-v3-h800"), "agg", "sglang", tp=8, ep=8))
    assert not {"--moe-dense-tp-size", "--enable-dp-lm-head"} & set(dict(sglang.settings(d, d.roles[0]).arguments))
    d = deployment(with_layout(example("gpt-oss-120b-h100"), "agg", "sglang", attention_dp=8, ep=8))
    assert not has_dense_layers(d.spec)
    arguments = dict(sglang.settings(d, d.roles[0]).arguments)
    assert "--moe-dense-tp-size" not in arguments
    assert "--enable-dp-lm-head" in arguments


@pytest.mark.parametrize("layout", [WIDE, {"tp": 2, "attention_dp": 8, "ep": 16}])
def test_the_plan_counts_what_the_flags_make_a_rank_hold(layout: dict[str, int]) -> None:
    """The engine's memory has dense MLPs whole and the head over attention TP, so exports have nothing to add."""
    d = deployment(with_layout(example("deepseek-v3-h800"), "agg", "sglang", **layout))
    table = stage_table(
        d.spec, PrecisionPlan.from_checkpoint(d.spec), Layouts.of(**layout), engine_memory("sglang"), mtp=False
    )
    assert table.by_class["dense_mlp"][0, 0] == pytest.approx(3 * 3 * 7168 * 18432, rel=0.001)
    assert table.by_class["head"][0, 0] == 129280 * 7168 * 2 / layout.get("tp", 1)
    assert not any("dense" in note for note in sglang.settings(d, d.roles[0]).notes)
