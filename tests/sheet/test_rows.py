"""A row becomes a scenario: short columns, dotted keys, empty cells, what spreadsheets do to numbers."""

from __future__ import annotations

import math

import pytest

from planner.errors import InputError, UnknownNameError
from planner.scenario.load import scenario_from_data
from planner.sheet.rows import COLUMNS, check_columns, foreign_columns, place, question
from planner.sheet.table import answer

BASE = {"model": "qwen3-32b", "node": "dgx-h100", "input_tokens": 2000, "output_tokens": 300, "rate_rps": 5}


def test_a_row_is_a_scenario() -> None:
    row = BASE | {
        "usd_per_gpu_hour": 2.5,
        "tpot_limit_ms": 50,
        "serving": "agg, disagg",
        "spare_nodes": 1.0,
        "kv": "fp8",
    }
    s = scenario_from_data(question(row))
    assert s.economics.usd_per_gpu_hour == {"dgx-h100": 2.5}
    assert s.search.serving == ("agg", "disagg")
    assert s.reliability.spare_nodes == 1
    assert s.slo.tpot_ms is not None
    assert s.slo.tpot_ms.mean == 50
    assert s.precision.kv == "fp8"
    assert s.engine.name == "vllm"


@pytest.mark.parametrize("empty", [None, "", "  ", math.nan])
def test_empty_cells_are_left_out(empty: object) -> None:
    assert "kv" not in question(BASE | {"kv": empty}).get("precision", {})
    with pytest.raises(InputError, match="model"):
        question(BASE | {"model": empty})


def test_spreadsheets_numbers() -> None:
    row = BASE | {"input_tokens": 2000.0, "rate_rps": "5.5", "engine_version": 0.33, "max_nodes": "4"}
    s = scenario_from_data(question(row))
    assert s.workload.arrival.rate() == 5.5
    assert s.engine.version == "0.33"
    assert s.hardware.candidates[0].max_nodes == 4


def test_closed_loop_and_open_loop() -> None:
    row = {k: v for k, v in BASE.items() if k != "rate_rps"} | {"concurrency": 64}
    assert scenario_from_data(question(row)).workload.arrival.kind == "closed_loop"
    with pytest.raises(InputError, match="not both"):
        question(BASE | {"concurrency": 64})


def test_a_row_without_a_load_says_which_two_columns_give_one() -> None:
    row = {k: v for k, v in BASE.items() if k != "rate_rps"}
    with pytest.raises(InputError, match="rate_rps: got nothing; needed: requests per second, or concurrency"):
        question(row)
    assert scenario_from_data(question(row | {"workload.arrival.rate_rps": 2.0})).workload.arrival.rate() == 2.0


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"rate_rps": -5}, "rate_rps: got -5.0; must be at least"),
        ({"node": "nope"}, "node: got 'nope'; allowed: "),
        ({"input_tokens": 0}, "input_tokens: got 0; must be at least 1"),
        ({"usd_per_gpu_hour": -1}, "usd_per_gpu_hour: got -1.0; must be at least 0"),
        ({"kv": "fp9"}, "kv: got 'fp9'; not known"),
        ({"ttft_p95_limit_ms": -1}, "ttft_p95_limit_ms: got -1.0;"),
        ({"max_nodes": -3, "spare_nodes": -1}, "max_nodes: got -3; must be at least 1 (and 1 more error: spare_nodes)"),
        ({"engine.options.max_num_seqs": 0}, "engine.options.max_num_seqs: got 0; must be at least 1"),
        ({"rate_rps": None, "workload.arrival.rate_rps": -4}, "workload.arrival.rate_rps: got -4; must be"),
    ],
)
def test_what_is_wrong_is_named_by_the_column_it_stands_in(cells: dict[str, object], said: str) -> None:
    message = answer(BASE | cells)["message"]
    assert str(message).startswith(said)


def test_dotted_columns() -> None:
    row = BASE | {"engine.options.max_num_seqs": 256.0, "engine.options.cuda_graphs": "TRUE"}
    s = scenario_from_data(question(row))
    assert s.engine.options.max_num_seqs == 256
    assert s.engine.options.cuda_graphs is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_tokens": 2000.5}, "whole number"),
        ({"rate_rps": "fast"}, "rate_rps"),
        ({"rate_rps": True}, "rate_rps"),
        ({"engine": "vlm"}, "vllm"),
        ({"prefix_hit_rate": 1.5}, "prefix_hit_rate"),
    ],
)
def test_what_is_wrong_names_the_column(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scenario_from_data(question(BASE | change))


def test_columns_are_checked_once() -> None:
    check_columns([*BASE, "engine.options.max_num_seqs", "gpus"])
    with pytest.raises(UnknownNameError, match="input_tokens"):
        check_columns([*BASE, "input_token"])
    with pytest.raises(InputError, match="also needed: node"):
        check_columns([c for c in BASE if c != "node"])


def test_every_column_says_what_it_means() -> None:
    assert all(c.meaning.endswith(".") for c in COLUMNS.values())


def test_places_in_lists() -> None:
    data: dict[str, object] = {}
    place(data, "a.0.b", 1, "a")
    place(data, "a.0.c", 2, "a")
    place(data, "a.1.b", 3, "a")
    assert data == {"a": [{"b": 1, "c": 2}, {"b": 3}]}
    with pytest.raises(InputError, match="place"):
        place(data, "a.9.b", 1, "a")


@pytest.mark.parametrize(
    "name", ["prix", "notes", "note", "price", "owner", "GPU", "Prix (EUR)", "description", "prix.ht", "日付"]
)
def test_columns_of_the_buyers_own(name: str) -> None:
    assert foreign_columns([*BASE, "engine.options.max_num_seqs", "status", name]) == [name]
    with pytest.raises(UnknownNameError):
        check_columns([*BASE, name])


@pytest.mark.parametrize(
    "name",
    ["rate", "Rate (rps)", "tpot_ms", "ttft_limit", "Input tokens", "max_node", "usd", "engin", "pefix_hit_rate"]
    + ["engines.options.max_num_seqs", "workloads.arrival.rate_rps", "Model"],
)
def test_slips_are_not_taken_for_columns_of_the_buyers_own(name: str) -> None:
    with pytest.raises(UnknownNameError):
        foreign_columns([*BASE, name])


def test_required_columns_are_missed_beside_any_others() -> None:
    with pytest.raises(InputError, match="also needed: node"):
        foreign_columns(["model", "input_tokens", "output_tokens", "prix"])
