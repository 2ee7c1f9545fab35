"""Engines on vendors' accelerators: what is refused, what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plans import example, with_layout

from planner.catalog import catalog
from planner.cli import run
from planner.errors import InputError
from planner.export.formats import export_text
from planner.export.roles import deployment
from planner.export.vendors import NAMES, vendor_notes, vendors


def test_trtllm_is_refused_on_amd_gpus_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(example("llama-3.3-70b-mi300x").to_yaml(), encoding="utf-8")
    assert run(["export", str(path), "--format", "trtllm"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "--format: got 'trtllm'; the plan's accelerators (mi300x-8) are of AMD" in printed.err
    assert "vLLM and SGLang run" in printed.err
    assert len(printed.err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["leaderworkerset", "dynamo"])
def test_manifests_of_a_plan_for_trtllm_on_amd_gpus_are_refused(name: str) -> None:
    plan = with_layout(example("llama-3.3-70b-mi300x"), "agg", "trtllm", tp=8, moe_tp=8)
    with pytest.raises(InputError, match=r"engine\.name: got 'trtllm'; .* are of AMD"):
        export_text(plan, name)


@pytest.mark.parametrize(
    ("vendor", "engine", "said"),
    [
        ("nvidia", "trtllm", None),
        ("amd", "sglang", None),
        ("huawei", "vllm", "vllm-ascend"),
        ("huawei", "sglang", None),
        ("intel", "vllm", "vllm-gaudi"),
        ("google", "sglang", "sglang-jax"),
    ],
)
def test_plug_ins_are_named(vendor: str, engine: str, said: str | None) -> None:
    role = replace(deployment(example("gpt-oss-120b-h100")).roles[0], vendor=vendor)
    notes = list(vendor_notes(role, engine))
    assert [said in note for note in notes if said] == ([True] if said else [])
    assert bool(notes) == (said is not None)


def test_gaudi_has_vllm_alone() -> None:
    role = replace(deployment(example("gpt-oss-120b-h100")).roles[0], vendor="intel")
    with pytest.raises(InputError, match=r"--format: got 'sglang'; .*of Intel Gaudi, on which vLLM runs"):
        list(vendor_notes(role, "sglang"))


def test_every_vendor_of_the_catalogue_is_known() -> None:
    found = {a.vendor for a in map(catalog().accelerator, catalog().accelerator_ids())}
    assert found <= set(NAMES)
    assert found <= set(vendors()["visible_devices"])
    for entry in (*vendors()["engines"].values(), *vendors()["visible_devices"].values()):
        assert entry["source"]
