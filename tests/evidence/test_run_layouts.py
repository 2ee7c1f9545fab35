"""Layouts of runs: gaps are filled one row at a time, contradictions and impossible shapes are told apart."""

from __future__ import annotations

import pytest

from planner.catalog import Catalog
from planner.errors import InputError
from planner.evidence.run_layouts import impossible_layouts, run_layouts
from planner.evidence.runs import Runs, runs_from_rows


def _runs(*layouts: dict[str, int]) -> Runs:
    row = {"model": "m", "gpu": "g", "engine": "vllm", "input_tokens": 1, "output_tokens": 1, "concurrency": 1}
    return runs_from_rows([row | layout for layout in layouts])


def test_what_is_left_out_is_one_and_moe_tp_the_rest(cat: Catalog) -> None:
    runs = _runs({"tp": 8}, {"tp": 8, "ep": 4}, {"tp": 8, "moe_tp": 8}, {"tp": 1, "attention_dp": 8, "ep": 8})
    found = run_layouts(runs, range(4), "", cat.model("deepseek-v3"))
    assert found.moe_tp.tolist() == [8, 2, 8, 1]
    assert found.pp.tolist() == [1, 1, 1, 1]


def test_a_moe_tp_that_is_stated_counts_beside_rows_without(cat: Catalog) -> None:
    runs = _runs({"tp": 8}, {"tp": 8, "moe_tp": 4})
    with pytest.raises(InputError, match="same GPUs"):
        run_layouts(runs, [0, 1], "", cat.model("deepseek-v3"))


def test_a_dense_model_has_no_expert_ranks(cat: Catalog) -> None:
    runs = _runs({"tp": 4, "moe_tp": 4, "ep": 1}, {"tp": 4, "ep": 2})
    assert run_layouts(runs, [0], "", cat.model("llama-3.1-8b")).tp.tolist() == [4]
    with pytest.raises(InputError, match="no experts"):
        run_layouts(runs, [1], "", cat.model("llama-3.1-8b"))


def test_reasons_are_by_row_and_pool(cat: Catalog) -> None:
    runs = _runs({"tp": 8}, {"tp": 7}, {"tp": 8, "ep": 3}, {"tp": 8, "pp": 99}, {"tp": 7})
    found = impossible_layouts(runs, range(5), ("",), cat.model("deepseek-v3"), "vllm")
    assert sorted(found) == [1, 2, 3, 4]
    assert found[1] == found[4]
    assert "heads" in found[1]
    assert "divisor of tp" in found[2]
    assert "99 stages" in found[3]
    pools = _runs({"prefill_tp": 8, "decode_tp": 7}, {"prefill_tp": 8, "decode_tp": 8})
    split = impossible_layouts(pools, range(2), ("prefill_", "decode_"), cat.model("deepseek-v3"), "vllm")
    assert sorted(split) == [0]
