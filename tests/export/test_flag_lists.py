"""The kept flag lists: what they were collected from, spelled as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError, UnknownNameError
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
    flag_list("sglang").check("--tp", (8,))
    with pytest.raises(UnknownNameError, match="--tensor-parallel-size"):
        flag_list("vllm").check("--tensor-parallel-sizes", (8,))


@pytest.mark.parametrize(
    ("engine", "flag", "good", "bad"),
    [
        ("vllm", "--enable-expert-parallel", (), ("true",)),
        ("vllm", "--max-num-seqs", (64,), ()),
        ("vllm", "--max-num-seqs", ("${N}",), ("many",)),
        ("vllm", "--gpu-memory-utilization", (0.9,), (0.9, 0.8)),
        ("vllm", "--all2all-backend", ("deepep_low_latency",), ("deepep",)),
        ("vllm", "--kv-transfer-config.kv_role", ("kv_both",), ("both",)),
        ("sglang", "--deepep-mode", ("normal",), ("high_throughput",)),
        ("sglang", "--disaggregation-mode", ("null",), ("none",)),
        ("sglang-router", "--prefill", ("http://a:1", 8998), ()),
        ("trtllm", "kv_cache_config.dtype", ("fp8",), ("fp8_e4m3",)),
    ],
)
def test_values_and_their_number(engine: str, flag: str, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    flag_list(engine).check(flag, good)
    with pytest.raises(InputError, match=flag):
        flag_list(engine).check(flag, bad)


def test_images_carry_the_lists_version() -> None:
    images = kubernetes()["images"]["engine"]
    assert VERSIONS["vllm"] in images["vllm"]["image"]
    assert VERSIONS["sglang"] in images["sglang"]["image"]
