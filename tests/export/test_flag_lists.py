"""The kept flag lists: what they were collected from, spelled as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import UnknownNameError
from planner.export.flag_lists import flag_list, kubernetes
from planner.scenario.safe_yaml import load_yaml

VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23", "trtllm": "main@0004396"}


@pytest.mark.parametrize("engine", VERSIONS)
def test_versions_and_sources(engine: str) -> None:
    kept = flag_list(engine)
    assert kept.version == VERSIONS[engine]
    for flag in kept.flags.values():
        assert flag.source
        assert flag.version
        assert flag.meaning


@pytest.mark.shared
@pytest.mark.parametrize("engine", VERSIONS)
def test_every_collected_flag_is_kept(engine: str, shared: Path) -> None:
    facts = load_yaml((shared / "facts/engine_flags" / f"{engine}.yaml").read_text(encoding="utf-8"), engine)
    kept = flag_list(engine)
    for entry in facts["flags"]:
        assert str(entry["name"]).split(" (")[0] in kept


def test_aliases_count_and_unknown_flags_do_not() -> None:
    assert "-tp" in flag_list("vllm")
    assert flag_list("sglang").require("--tp") == "--tp"
    with pytest.raises(UnknownNameError, match="--tensor-parallel-size"):
        flag_list("vllm").require("--tensor-parallel-sizes")


def test_images_carry_the_lists_version() -> None:
    images = kubernetes()["images"]["engine"]
    assert VERSIONS["vllm"] in images["vllm"]["image"]
    assert VERSIONS["sglang"] in images["sglang"]["image"]
