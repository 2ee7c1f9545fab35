"""KV pages: uniform models, hybrids padded to groups, states."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog import catalog
from planner.memory.coefficients import engine_memory
from planner.memory.pages import bytes_per_token, page_groups, sequence_bytes


def _groups(model: str, tp: int = 1, engine: str = "vllm", kv: str = "bf16", user=None):
    spec = catalog(user).model(model)
    layers = np.zeros((1, 3, len(spec.layers)), dtype=np.int64)
    layers[0, 0] = [g.count for g in spec.layers]
    return page_groups(spec, kv, engine_memory(engine), tp=np.asarray([tp]), group_layers=layers)


@pytest.mark.parametrize(
    ("model", "tp", "kv", "expected"),
    [
        ("deepseek-v3", 1, "bf16", 70272),  # Insights into DeepSeek-V3, table 1
        ("deepseek-v3", 8, "bf16", 70272),  # MLA is replicated over TP
        ("qwen2.5-72b", 1, "bf16", 327680),  # Insights into DeepSeek-V3, table 1
        ("llama-3.1-405b", 1, "bf16", 516096),  # Insights into DeepSeek-V3, table 1
        ("llama-3.1-8b", 4, "bf16", 32768),
        ("llama-3.1-8b", 16, "bf16", 16384),  # 8 KV heads do not split over 16 ranks
        ("deepseek-v3.2", 1, "bf16", 61 * (576 * 2 + 132)),
    ],
)
def test_bytes_per_token(model: str, tp: int, kv: str, expected: int) -> None:
    assert np.asarray(bytes_per_token(_groups(model, tp, kv=kv)))[0, 0] == expected


def test_gpt_oss_pages_as_two_groups_of_twelve_layers() -> None:
    # measured/memory_runs.csv: 59.32 GiB in 323,972 pages at TP2.
    full, window = sorted(_groups("gpt-oss-20b", tp=2), key=lambda g: g.kind)
    assert (full.kind, full.copies, window.kind, window.copies) == ("full", 1, "window", 1)
    assert full.page_bytes[0, 0] == window.page_bytes[0, 0] == 16 * 12 * 2 * 4 * 64 * 2


def test_gemma_3_pads_its_last_group() -> None:
    # measured/memory_runs.csv: 15,997 pages in 19.53 GiB print 36,560 tokens: 7 groups of 10 layers for 62 layers.
    groups = {g.kind: g for g in _groups("gemma-3-27b")}
    assert (groups["full"].copies, groups["window"].copies) == (1, 6)
    assert groups["full"].page_bytes[0, 0] == 16 * 10 * 8192
    assert 15997 // 7 * 16 == 36560


def test_a_window_holds_no_more_than_itself_and_one_block() -> None:
    window = next(g for g in _groups("gemma-3-27b") if g.kind == "window")
    assert window.pages(100_000)[0, 0] == 65
    assert window.pages(20)[0, 0] == 2, "never more than the sequence"
    assert window.pages(8192, prefill_tokens=8192)[0, 0] == 512


def test_a_recurrent_state_takes_one_page_that_holds_it() -> None:
    groups = {g.kind: g for g in _groups("qwen3-next-80b-a3b", tp=2)}
    state = groups["state"]
    assert np.all(state.pages(10_000) == 1)
    assert state.block_tokens[0, 0] % 16 == 0
    assert state.block_tokens[0, 0] > 16, "attention blocks grow until a page holds a state"


def test_per_layer_engines_keep_what_a_sequence_needs() -> None:
    groups = _groups("gemma-3-27b", engine="sglang")
    expected = 8192 * (10 * 5000 + 52 * 1024)
    assert np.asarray(sequence_bytes(groups, 5000))[0, 0] == pytest.approx(expected, rel=1e-3)
