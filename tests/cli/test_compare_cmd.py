"""Two plans compare through the difference of their tuples, before their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import plan_data
import pytest

from planner.cli import run
from planner.cli.compare_cmd import comparison
from planner.scenario.identity import Identity, identity_difference


def test_the_tuple_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = plan_data.plan()
    b = plan_data.plan(
        identity=a.identity.model_copy(update={"engine": "vllm", "precision": {"kv": "fp8_tensor"}}),
        candidates=(plan_data.candidate(1, tpot=86.2),),
    )
    paths = []
    for name, plan in (("a.yaml", a), ("b.yaml", b)):
        paths.append(str(tmp_path / name))
        (tmp_path / name).write_text(plan.to_yaml())
    assert run(["compare", *paths, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document).index("identity_difference") < list(document).index("numbers")
    assert document["identity_difference"] == {
        "engine": {"a": "sglang", "b": "vllm"},
        "precision.default": {"a": "fp8_block", "b": None},
        "precision.kv": {"a": "bf16", "b": "fp8_tensor"},
    }
    assert document["scenario_difference"] == {}
    assert document["numbers"]["tpot_ms.mean"]["b_over_a"] == pytest.approx(2.0)
    assert run(["compare", *paths]) == 0
    text = capsys.readouterr().out
    assert text.index("Identity tuple") < text.index("Numbers")


def test_an_empty_plan_compares() -> None:
    document = comparison(plan_data.plan(), plan_data.plan(False))
    assert document["numbers"]["gpus"] == {"a": 16, "b": None, "b_over_a": None}


def test_identity_difference_of_equal_tuples_is_empty() -> None:
    one = Identity(checkpoint="a", precision={"kv": "bf16"})
    assert identity_difference(one, one) == {}
