"""The table against the formula it holds: within 1 % everywhere a replay looks."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog import Catalog
from planner.layout.layouts import Layouts
from planner.replay.step_table import Prompts, StepTable, equal_past
from planner.scenario.load import load_scenario
from planner.search.setup import setup

BUDGET, SEQUENCES, CONTEXT = 8192, 256, 32_768
CASES = [
    ("llama-3.3-70b-mi300x", Layouts.of(tp=4), False, False),
    ("deepseek-v3-h800", Layouts.of(tp=16, ep=16), False, False),
    ("deepseek-v3-h800", Layouts.of(attention_dp=32, ep=32, redundant_experts=32), True, True),
    ("kimi-k2-gb200", Layouts.of(attention_dp=8, ep=8), False, False),
    ("qwen3-32b-l40s", Layouts.of(tp=2, pp=2), False, False),
]


@pytest.mark.parametrize(("name", "layout", "two_batch", "deepep"), CASES)
def test_is_within_one_percent_of_the_formula(
    cat: Catalog, name: str, layout: Layouts, two_batch: bool, deepep: bool
) -> None:
    s = setup(load_scenario(f"examples/{name}.yaml"), cat)
    hw = s.hardware(s.scenario.hardware.candidates[0])
    table = StepTable(
        hw.ctx,
        layout,
        two_batch=two_batch,
        deepep=deepep,
        most_sequences=SEQUENCES,
        most_tokens=BUDGET,
        longest_context=CONTEXT,
    )
    rng = np.random.default_rng(5)
    ranks = int(layout.attention_dp[0])
    for _ in range(150):
        n = int(np.exp(rng.uniform(0.0, np.log(SEQUENCES))))
        kv = float(np.exp(rng.uniform(np.log(32), np.log(CONTEXT))))
        assert table.decode(n, kv) == pytest.approx(table.formula(n, kv), rel=0.01)
        tokens = int(np.exp(rng.uniform(np.log(16), np.log(BUDGET))))
        seqs = int(rng.integers(1, min(tokens // 16, 32) + 1))
        past = float(rng.choice([0.0, rng.uniform(0.0, CONTEXT / 2)]))
        prompts = Prompts(tokens, seqs, past, tokens * float(rng.uniform(1, ranks)))
        beside = int(rng.choice([0, n]))
        assert table.mixed(beside, kv, prompts) == pytest.approx(table.formula(beside, kv, prompts), rel=0.01)


def test_equal_past_keeps_the_attention_pairs() -> None:
    """Chunks of 100 after 300 and 50 after 0: 35,000 + 1,250 pairs, as 2 x 75 after 204.17."""
    tokens, seqs, past = equal_past([(100, 300), (50, 0)])
    assert (tokens, seqs) == (150.0, 2)
    assert tokens * (past + 0.5 * tokens / seqs) == pytest.approx(100 * 350 + 50 * 25)
    assert equal_past([(64, 0)]) == (64.0, 1, 0.0)


def test_draft_tokens_cost_less_than_further_sequences(cat: Catalog) -> None:
    """Three tokens a sequence: more than a step of one, less than a step of three times the sequences."""
    s = setup(load_scenario("examples/llama-3.3-70b-mi300x.yaml"), cat)
    hw = s.hardware(s.scenario.hardware.candidates[0])
    sizes = {"most_sequences": 64, "most_tokens": 2048, "longest_context": 8192}
    plain, checked = (StepTable(hw.ctx, Layouts.of(tp=4), drafts=d, **sizes) for d in (0, 2))
    assert plain.decode(16, 4000.0) < checked.decode(16, 4000.0) < plain.decode(48, 4000.0)
    prompts = Prompts(512.0, 1, 0.0, 512.0)
    assert plain.mixed(16, 4000.0, prompts) < checked.mixed(16, 4000.0, prompts) < plain.mixed(48, 4000.0, prompts)
