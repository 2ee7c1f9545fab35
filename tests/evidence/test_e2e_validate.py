"""The validation report: every run keeps its row, errors stand beside their counts, bad rows say why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.catalog import Catalog
from planner.errors import InputError
from planner.evidence.e2e_validate import validate_e2e
from planner.evidence.runs import read_runs, runs_from_rows

ROOT = Path(__file__).resolve().parents[2]

ROW: dict[str, str] = {
    "run_id": "a",
    "model": "meta-llama/Llama-3.1-70B",
    "gpu": "h200-sxm",
    "engine": "vllm",
    "bench": "inferencex",
    "linear_precision": "fp8",
    "input_tokens": "1024",
    "output_tokens": "1024",
    "concurrency": "16",
    "tp": "4",
    "pp": "1",
    "attention_dp": "1",
    "moe_tp": "4",
    "ep": "1",
    "ttft_ms": "126",
    "tpot_ms": "10.9",
}


def _report(cat: Catalog, *changes: dict[str, str]) -> dict[str, Any]:
    rows = [ROW | {"run_id": str(i)} | change for i, change in enumerate(changes)]
    return validate_e2e(runs_from_rows(rows), cat)


OUTPUT, IN_FLIGHT = float(ROW["output_tokens"]), float(ROW["concurrency"])


def test_every_measured_run_is_predicted_quickly(cat: Catalog) -> None:
    runs = read_runs(ROOT / "measured" / "e2e_runs.csv")
    started = time.process_time()
    report = validate_e2e(runs, cat)
    assert time.process_time() - started < 5.0
    assert report["rows"] == report["predicted"] == len(report["predictions"]) == 1522
    assert report["failed"] == {}
    for row in report["predictions"]:
        for metric in ("ttft_ms", "tpot_ms"):
            assert 0 < row[f"low80_{metric}"] <= row[f"predicted_{metric}"] * 1.5
            assert row[f"low80_{metric}"] < row[f"high80_{metric}"] < np.inf
    for metric, points in (("tpot_ms", 1332), ("ttft_ms", 1332)):
        assert report["metrics"][metric]["points"] == points
        assert 0.75 <= report["metrics"][metric]["interval80_coverage"] <= 0.85
    names = {g["group"] for g in report["groups"]}
    assert {"model", "gpu", "engine", "precision", "serving", "concurrency", "speculative", "distance"} <= names
    assert all("breakdown_ms" in row for row in report["worst"])


def test_rows_that_cannot_be_predicted_are_kept_with_their_reason(cat: Catalog) -> None:
    report = _report(
        cat,
        {},
        {"model": "nobody/unheard-of"},
        {"gpu": "abacus"},
        {"engine": "pen-and-paper"},
        {"tp": ""},
        {"concurrency": "0"},
        {"moe_tp": "3"},
        {"linear_precision": "fp3"},
    )
    assert report["rows"] == 8
    reasons = [row["reason"] for row in report["predictions"]]
    assert reasons[0] == ""
    assert all(reasons[i] for i in (1, 2, 3, 4, 5))
    assert sum(report["failed"].values()) == sum(1 for r in reasons if r)
    assert report["predicted"] == sum(1 for r in reasons if not r)
    assert "unheard-of" in reasons[1]


def test_one_bad_row_does_not_take_its_group_along(cat: Catalog) -> None:
    report = _report(
        cat, {}, {"model": "deepseek-ai/DeepSeek-V3", "tp": "8", "ep": "8", "moe_tp": "8"}, {"concurrency": "64"}
    )
    assert [bool(row["reason"]) for row in report["predictions"]] == [False, True, False]


BAD_CELLS = {
    "tp: got '1.5'": {"tp": "1.5"},
    "tp: got 'many'": {"tp": "many"},
    "tp: got '1e300'": {"tp": "1e300"},
    "concurrency: got '-4'": {"concurrency": "-4"},
    "concurrency: got 'inf'": {"concurrency": "inf"},
    "ttft_ms: got 'n/a'": {"ttft_ms": "n/a"},
    "tpot_ms: got '0'": {"tpot_ms": "0"},
    "serving: got 'both'; agg or disagg": {"serving": "both"},
    "gpu: got 'abacus'": {"gpu": "abacus"},
    "64 attention heads do not divide over tp = 7": {"tp": "7"},
    "has no experts": {"ep": "2"},
    "80 layers do not give pp = 81 stages": {"pp": "81"},
    "linear_precision, moe_precision: got 'fp3'": {"linear_precision": "fp3"},
    "decode_workers is missing": {"serving": "disagg", "prefill_tp": "4", "prefill_workers": "1", "decode_tp": "4"},
    "cells beyond the last column": {None: ["9"]},
}


def test_a_bad_cell_costs_its_own_row_and_says_which(cat: Catalog) -> None:
    report = _report(cat, {}, *BAD_CELLS.values(), {})  # type: ignore[arg-type]
    first, *bad, last = report["predictions"]
    for said, row in zip(BAD_CELLS, bad, strict=True):
        assert said in row["reason"]
        assert row["predicted_tpot_ms"] is None
    assert first["reason"] == last["reason"] == ""
    assert first["predicted_tpot_ms"] == last["predicted_tpot_ms"] > 0
    assert report["predicted"] == 2


def test_cells_that_a_serving_mode_does_not_use_are_not_its_problem(cat: Catalog) -> None:
    assert _report(cat, {"decode_tp": "0", "prefill_workers": "none"})["predicted"] == 1


def test_columns_are_there_once_and_may_carry_spaces_and_a_mark(cat: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = ("model", "gpu", "engine", "input_tokens", "output_tokens", "concurrency", "tp", "tpot_ms")
    line = ",".join(ROW[name] for name in names)
    path.write_text("\ufeff" + " , ".join(names) + "\n" + line + "\n", encoding="utf-8")
    report = validate_e2e(read_runs(path), cat)
    assert report["predicted"] == 1
    assert {text.split(" ")[0] for text in report["assumptions"]} == {"serving", "speculative", "precision"}
    path.write_text(",".join((*names, "tp")) + "\n" + line + ",4\n")
    with pytest.raises(InputError, match="'tp'; every column once"):
        read_runs(path)


def test_a_table_without_any_predictable_row_still_reports(cat: Catalog) -> None:
    report = _report(cat, {"model": "nobody/unheard-of"})
    assert report["predicted"] == 0
    assert report["metrics"] == {}
    assert report["predictions"][0]["predicted_tpot_ms"] is None


def test_a_sparse_table_needs_no_more_than_tp(cat: Catalog) -> None:
    names = ("model", "gpu", "engine", "input_tokens", "output_tokens", "concurrency", "tp", "tpot_ms")
    sparse = {name: ROW[name] for name in names}
    moe = sparse | {"model": "openai/gpt-oss-120b"}
    report = validate_e2e(runs_from_rows([sparse, moe]), cat)
    assert report["predicted"] == 2
    assert all(row["predicted_tpot_ms"] > 0 for row in report["predictions"])


def test_unmeasured_metrics_are_predicted_but_not_scored(cat: Catalog) -> None:
    report = _report(cat, {"ttft_ms": ""}, {"tpot_ms": ""})
    assert report["metrics"]["ttft_ms"]["points"] == report["metrics"]["tpot_ms"]["points"] == 1
    assert all(row["predicted_ttft_ms"] > 0 for row in report["predictions"])


def test_unknown_speculation_is_a_group_of_its_own(cat: Catalog) -> None:
    report = _report(cat, {}, {"speculative": "unknown", "tpot_ms": "1.0"})
    assert report["metrics"]["tpot_ms"]["points"] == 1
    groups = {g["value"]: g for g in report["groups"] if g["group"] == "speculative"}
    assert groups["unknown"]["metrics"]["tpot_ms"]["points"] == 1


@pytest.mark.parametrize("gpu", ["b300-sxm", "gb300-nvl72", "mi300x", "mi355x", "h20-96g", "l40s", "a100-80g-sxm"])
@pytest.mark.parametrize("engine", ["sglang", "trtllm", "vllm"])
def test_accelerators_and_engines_without_runs_are_predicted_with_wider_intervals(
    cat: Catalog, gpu: str, engine: str
) -> None:
    row = _report(cat, {"gpu": gpu, "engine": engine})["predictions"][0]
    known = _report(cat, {})["predictions"][0]
    assert row["reason"] == ""
    wide = np.log(row["high80_tpot_ms"] / row["low80_tpot_ms"])
    assert wide > np.log(known["high80_tpot_ms"] / known["low80_tpot_ms"])


def test_repeated_in_flight_takes_longer_per_token_and_tp_less(cat: Catalog) -> None:
    loads = [{"concurrency": str(c)} for c in (1, 4, 16, 64, 256)]
    times = [r["predicted_tpot_ms"] for r in _report(cat, *loads)["predictions"]]
    assert times == sorted(times)
    splits = [{"tp": str(tp), "moe_tp": str(tp)} for tp in (1, 2, 4, 8)]
    times = [r["predicted_tpot_ms"] for r in _report(cat, *splits)["predictions"]]
    assert times == sorted(times, reverse=True)


def test_throughput_follows_from_both_times_and_is_scored_where_measured(cat: Catalog) -> None:
    report = _report(cat, {}, {"output_tokens_per_s": "900"}, {"output_tokens_per_s": "many"})
    plain, measured, bad = report["predictions"]
    assert plain["measured_output_tokens_per_s"] is None
    request_s = (plain["predicted_ttft_ms"] + (OUTPUT - 1) * plain["predicted_tpot_ms"]) / 1e3
    assert plain["predicted_output_tokens_per_s"] == pytest.approx(IN_FLIGHT * OUTPUT / request_s)
    low, high = (plain[f"{edge}80_output_tokens_per_s"] for edge in ("low", "high"))
    assert low < plain["predicted_output_tokens_per_s"] < high
    metric = report["metrics"]["output_tokens_per_s"]
    assert metric["points"] == 1
    assert metric["bias"] == pytest.approx(measured["predicted_output_tokens_per_s"] / 900 - 1)
    assert bad["reason"].startswith("output_tokens_per_s: got 'many'")


def test_what_is_left_out_of_the_errors_is_said(cat: Catalog) -> None:
    report = _report(cat, {}, {"speculative": "mtp"}, {"tpot_ms": "nan"}, {"output_tokens": "1"})
    (told,) = report["warnings"]
    assert told.startswith("speculative decoding mtp")
    assert report["metrics"]["tpot_ms"]["points"] == 1
    assert any(a.startswith("tpot_ms: nan in 1 of 4 rows") for a in report["assumptions"])
    assert any("one output token" in a for a in report["assumptions"])


@pytest.mark.parametrize(("scale", "unit"), [(1e-3, "seconds"), (1e3, "microseconds"), (0.2, ""), (5.0, "")])
def test_another_unit_is_suspected_aloud_and_slow_runs_are_not(cat: Catalog, scale: float, unit: str) -> None:
    row = {"ttft_ms": str(126 * scale), "tpot_ms": str(10.9 * scale)}
    found = list(_report(cat, row, row)["warnings"])
    assert len(found) == (2 if unit else 0)
    assert all(f"as if {unit} stood in a column of milliseconds" in f for f in found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"engine_version": "banana"}, "engine_version: got 'banana'"),
        ({"gpu": "NVIDIA H100 80GB HBM3"}, "did you mean h100-sxm?"),
        ({"model": "nobody/Nothing"}, "--models FOLDER"),
        ({"kv_precision": "fp3"}, "kv_precision: got 'fp3'"),
    ],
)
def test_words_that_mean_nothing_cost_their_row(cat: Catalog, change: dict[str, str], reason: str) -> None:
    report = _report(cat, {}, change)
    assert report["predicted"] == 1
    assert reason in next(iter(report["failed"]))


def test_names_of_accelerators_may_have_capitals_and_bands_are_in_order(cat: Catalog) -> None:
    report = _report(cat, {"concurrency": "300"}, {"gpu": "H200-SXM", "concurrency": "2"}, {"concurrency": "30"})
    assert report["predicted"] == 3
    bands = [g["value"] for g in report["groups"] if g["group"] == "concurrency"]
    assert bands == ["2 to 4", "17 to 64", "257 to 1024"]


def test_a_cache_in_8_bits_is_read_from_its_column(cat: Catalog) -> None:
    rows = _report(cat, *({"kv_precision": kv, "input_tokens": "60000"} for kv in ("bf16", "fp8")))["predictions"]
    assert rows[1]["predicted_tpot_ms"] < 0.99 * rows[0]["predicted_tpot_ms"]
