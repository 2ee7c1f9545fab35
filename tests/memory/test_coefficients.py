"""Engine memory files: versions, defaults, errors."""

from __future__ import annotations

import pytest

from planner.errors import InputError, UnknownNameError
from planner.memory.coefficients import engine_memory, is_before, version_key


def test_versions_compare_by_their_numbers() -> None:
    assert version_key("0.22.0rc1") == (0, 22, 0)
    assert is_before("0.9.2", "0.20")
    assert not is_before(None, "99.0"), "no version is the newest"
    with pytest.raises(InputError, match=r"engine\.version"):
        version_key("nightly")


def test_vllm_changed_its_sampler_its_share_and_its_graph_accounting() -> None:
    vllm = engine_memory("vllm")
    assert vllm.coefficients("0.11.0").sampler_bytes_per_logit == pytest.approx(36.2, abs=0.1)
    assert vllm.coefficients("0.19.0").sampler_bytes_per_logit == pytest.approx(12.7, abs=0.1)
    assert (vllm.share("0.19.0").share, vllm.share("0.20.0").share, vllm.share(None).share) == (0.9, 0.92, 0.92)
    assert (vllm.graphs_in_budget("0.19.1"), vllm.graphs_in_budget("0.20.0")) == (False, True)


def test_default_sequences_follow_the_memory() -> None:
    vllm = engine_memory("vllm")
    assert (vllm.max_num_seqs(48e9), vllm.max_num_seqs(80e9)) == (256, 1024)


def test_every_engine_cites_its_sources() -> None:
    for name in ("vllm", "sglang", "trtllm"):
        memory = engine_memory(name)
        assert memory.sources
        assert all(f.source for f in memory.fitted)


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="vllm"):
        engine_memory("vlm")


def test_versions_beyond_the_known_ones_are_named() -> None:
    vllm, trtllm = engine_memory("vllm"), engine_memory("trtllm")
    assert vllm.beyond_known(None) == vllm.beyond_known("0.19.0") == vllm.beyond_known("0.25.1rc1") == ""
    assert trtllm.beyond_known("1.3.0rc5") == ""
    assert "newer than the versions known here, 0.11.0 to 0.33.0" in vllm.beyond_known("99.0")
    assert "extrapolated from 0.11.0" in vllm.beyond_known("0.6.3")
