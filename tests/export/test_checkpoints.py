"""What is loaded for a plan's number formats: a published checkpoint, its own quantised on load, or none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from plans import example, with_layout

from planner.catalog import catalog
from planner.errors import InputError
from planner.export.flag_lists import read_file
from planner.export.formats import export_text
from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.model.precision import FORMATS, PrecisionPlan
from planner.search.plan_schema import Plan

LLAMA, QWEN = "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-235B-A22B-FP8"
LONG = "qwen3-235b-long-document-h20"


def in_formats(plan: Plan, **formats: str) -> Plan:
    """The plan as if it had been made with other formats of some weight classes."""
    precision = plan.identity.precision | formats
    return plan.model_copy(update={"identity": plan.identity.model_copy(update={"precision": precision})})


def llama(fmt: str, engine: str = "sglang", weights_gib: float | None = None) -> Plan:
    plan = with_layout(example("llama-3.3-70b-mi300x"), "agg", engine, tp=4, moe_tp=4)
    if weights_gib is not None:
        first = plan.candidates[0]
        assert first.memory_gib is not None
        memory = first.memory_gib.model_copy(update={"weights": weights_gib})
        plan = plan.model_copy(update={"candidates": (first.model_copy(update={"memory_gib": memory}),)})
    return in_formats(plan, attention=fmt, dense_mlp=fmt)


def text_of(plan: Plan, engine: str) -> str:
    return launch_script(deployment(plan, 1, engine), engine).replace("\n# ", " ")


def test_a_published_checkpoint_is_served_where_it_has_the_plans_formats() -> None:
    """The plan's weights fill 4 x 96 GB in FP8: the 470 GB of the model's own checkpoint would not fit."""
    plan = example(LONG)
    for engine in ("vllm", "sglang", "trtllm"):
        assert f"{QWEN} " in text_of(plan, engine)
        assert "Qwen/Qwen3-235B-A22B " not in text_of(plan, engine).split("set -euo")[1]
    for name in ("leaderworkerset", "dynamo", "llm-d"):
        assert QWEN in export_text(plan, name)
    own = in_formats(plan, attention="bf16", routed_experts="bf16")
    assert "--model-path Qwen/Qwen3-235B-A22B " in text_of(own, "sglang")


@pytest.mark.parametrize(
    ("engine", "fmt", "flag"),
    [
        ("vllm", "fp8_tensor", "fp8_per_tensor"),
        ("vllm", "fp8_channel", "fp8_per_channel"),
        ("vllm", "fp8_block", "fp8_per_block"),
        ("sglang", "fp8_tensor", "fp8"),
    ],
)
def test_an_engine_quantises_on_load_what_it_can(engine: str, fmt: str, flag: str) -> None:
    text = text_of(llama(fmt), engine)
    assert f"--quantization {flag}" in text
    assert LLAMA in text.split("set -euo")[1]
    assert "dense mlp" in text
    assert not any(word in text for word in ("expert", "indexer")), "the model is dense"


@pytest.mark.parametrize(
    ("engine", "made"),
    [
        ("trtllm", lambda: in_formats(example(LONG), attention="fp8_tensor", routed_experts="fp8_tensor")),
        ("sglang", lambda: llama("fp8_block")),
        ("sglang", lambda: llama("fp8_tensor", weights_gib=150.0)),  # 300 GiB a rank before they are made smaller
        ("vllm", lambda: in_formats(llama("fp8_tensor", "vllm"), dense_mlp="bf16")),
    ],
)
def test_a_plan_that_no_checkpoint_serves_does_not_start(engine: str, made: Callable[[], Plan], tmp_path: Path) -> None:
    """The script asks for a checkpoint instead of serving one in other formats; manifests are refused."""
    plan = made()
    script = tmp_path / "run.sh"
    script.write_text(launch_script(deployment(plan, 1, engine), engine))
    assert "NO CHECKPOINT KNOWN HERE" in script.read_text()
    for tool in ("vllm", "python", "trtllm-serve"):
        stand_in = tmp_path / tool
        stand_in.write_text('#!/bin/sh\necho "$@"\n')
        stand_in.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    alone = subprocess.run(["bash", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert alone.returncode != 0
    assert "a checkpoint with" in alone.stderr
    given = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env=env | {"MODEL": "org/mine"}, capture_output=True, text=True, check=True
    )
    assert "org/mine" in given.stdout
    if engine == plan.scenario.engine.name:
        with pytest.raises(InputError, match="known checkpoint"):
            export_text(plan, "llm-d")


def test_what_is_published_differs_from_the_models_own() -> None:
    known = catalog()
    for spec in map(known.model, known.model_ids()):
        own = PrecisionPlan.from_checkpoint(spec)
        for published in spec.quantised:
            formats = PrecisionPlan.from_checkpoint(spec.model_copy(update={"precision": published.precision}))
            assert formats != own
            assert published.hf_id != spec.hf_id
            assert published.source


def test_formats_that_engines_make_are_formats() -> None:
    for rule in (entry for name, entry in read_file("quantise_on_load").items()):
        assert set(rule["methods"]) <= set(FORMATS)
