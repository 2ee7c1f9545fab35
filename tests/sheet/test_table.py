"""Tables: the same form out as in, good rows beside bad ones, the numbers of a plan."""

from __future__ import annotations

import math

import pandas as pd
import pytest

import planner
from planner import sheet
from planner.errors import InfeasibleError, InputError
from planner.scenario.load import scenario_from_data
from planner.search.record import RESULT_COLUMNS
from planner.sheet.rows import question

GOOD = {
    "name": "a",
    "model": "qwen3-32b",
    "node": "dgx-h100",
    "input_tokens": 1000,
    "output_tokens": 100,
    "rate_rps": 2,
}
BAD = GOOD | {"name": "b", "model": "qwen3-33b"}
TOO_MUCH = GOOD | {"name": "c", "model": "llama-3.1-405b", "max_gpus_per_worker": 1}


def test_mappings() -> None:
    good, bad, much = sheet.plan_table([GOOD, BAD, TOO_MUCH])
    plan = planner.plan(scenario_from_data(question(GOOD)))
    assert good["gpus"] == plan.candidates[0].gpus
    assert good["tpot_mean_ms"] == plan.candidates[0].tpot_ms.mean
    assert (good["status"], bad["status"], much["status"]) == ("ok", "error", "infeasible")
    assert "qwen3-32b" in bad["message"]
    assert "memory" in much["message"]
    assert list(good)[-len(RESULT_COLUMNS) :] == list(RESULT_COLUMNS)


def test_frames_keep_their_index() -> None:
    frame = pd.DataFrame([GOOD, BAD], index=[7, 9])
    out = sheet.plan_table(frame)
    assert list(out.index) == [7, 9]
    assert list(out["status"]) == ["ok", "error"]
    assert math.isnan(out["gpus"][9])


def test_ranges_of_cells() -> None:
    head = [*GOOD, None]
    seen: list[tuple[int, int]] = []
    out = sheet.plan_table([head, [*GOOD.values(), None], [*BAD.values()]], progress=lambda *at: seen.append(at))
    assert out[0] == [*GOOD, *RESULT_COLUMNS]
    assert [row[len(GOOD)] for row in out[1:]] == ["ok", "error"]
    assert seen == [(1, 2), (2, 2)]


def test_a_table_with_results_is_planned_anew() -> None:
    once = sheet.plan_table([GOOD])
    assert sheet.plan_table(once) == once


@pytest.mark.parametrize("rows", [[], ["text"], [1, 2], [{"model": "x", "nodes_": 1}], 5, None, "text", GOOD])
def test_what_is_no_table(rows: object) -> None:
    with pytest.raises(InputError):
        sheet.plan_table(rows)


def test_candidates_as_a_range() -> None:
    out = sheet.candidates_table("qwen3-32b", "dgx-h100", 2, 1000, 100, tpot_limit_ms=50)
    assert out[0][0] == "rank"
    assert [row[0] for row in out[1:]] == list(range(1, len(out)))
    with pytest.raises(InfeasibleError):
        sheet.candidates_table("llama-3.1-405b", "dgx-h100", 2, 1000, 100, max_gpus_per_worker=1)
    with pytest.raises(InputError, match="tpot_limit_ms"):
        sheet.candidates_table("qwen3-32b", "dgx-h100", 2, 1000, 100, tpot_limit=50)


def test_a_column_that_is_there_twice_is_refused() -> None:
    """Either of the two would be dropped without a word."""
    head, cells = [*GOOD, "rate_rps"], [*GOOD.values(), 5]
    with pytest.raises(InputError, match=r"rate_rps in column 6, rate_rps in column 7.*; one column for one thing"):
        sheet.plan_table([head, cells])
    with pytest.raises(InputError, match="rate_rps in column 7"):
        sheet.plan_table(pd.DataFrame([cells], columns=head))
    with pytest.raises(InputError, match=r"rate_rps in key 6, workload\.arrival\.rate_rps in key 7"):
        sheet.plan_table([GOOD | {"workload.arrival.rate_rps": 5}])
