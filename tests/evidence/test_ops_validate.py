"""Operator tables against the curves: recognised by columns, compared row by row, bad rows told apart."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.cli import run
from planner.errors import InputError
from planner.evidence.ops_validate import is_operator_table, operator_columns, read_operators, validate_operators
from planner.evidence.recognise import kind_of

MEASURED = Path(__file__).resolve().parents[2] / "measured" / "ops"
TABLES = sorted(p.name for p in MEASURED.iterdir())
GEMM = "gpu,engine,engine_version,kernel_source,gemm_dtype,m,n,k,latency\n"


@pytest.mark.parametrize("name", TABLES)
def test_every_measured_table_is_recognised(name: str) -> None:
    assert is_operator_table(operator_columns(MEASURED / name))
    assert kind_of(MEASURED / name) == "operators"
    assert read_operators(MEASURED / name).name == name.split(".")[0]


@pytest.mark.parametrize(
    ("name", "median"),
    [("generation_mla", 0.15), ("mla_bmm", 0.15), ("nccl", 0.1), ("custom_allreduce", 0.1), ("wideep_deepep_ll", 0.1)],
)
def test_fitted_curves_are_near_their_table(cat: Catalog, name: str, median: float) -> None:
    report = validate_operators(read_operators(MEASURED / f"{name}.csv.gz"), cat)
    assert report["kind"] == "operators"
    assert report["predicted"] > 0.5 * report["rows"]
    assert report["rows"] == len(report["predictions"]) == report["predicted"] + sum(report["failed"].values())
    figures = report["metrics"]["latency_us"]
    assert figures["median_ape"] < median
    assert 0.65 < figures["interval80_coverage"] < 0.9
    assert {g["group"] for g in report["groups"]} == {"operator", "gpu", "engine", "curve_of"}
    worst = report["worst"][0]
    assert worst["predicted_latency_us"] != pytest.approx(worst["measured_latency_us"], rel=0.2)


def test_bad_rows_say_why_and_cost_no_other(tmp_path: Path, cat: Catalog) -> None:
    rows = [
        "h100-sxm,vllm,1,torch,bfloat16,1024,4096,4096,0.06",
        "h100-sxm,vllm,1,torch,bfloat16,many,4096,4096,0.06",
        "h100-sxm,vllm,1,torch,bfloat16,1024,4096,4096,0",
        "h100-sxm,vllm,1,torch,fp3,1024,4096,4096,0.06",
        "abacus,vllm,1,torch,bfloat16,1024,4096,4096,0.06",
        "h100-sxm,pen,1,torch,bfloat16,1024,4096,4096,0.06",
        "h100-sxm,vllm,1,torch,bfloat16,64,4096,4096,0.02",
        "h100-sxm,vllm,1,other,bfloat16,64,4096,4096,0.02",
    ]
    path = tmp_path / "mine.csv"
    path.write_text(GEMM + "\n".join(rows) + "\n")
    report = validate_operators(read_operators(path), cat)
    reasons = [line["reason"] for line in report["predictions"]]
    assert [bool(r) for r in reasons] == [False, True, True, True, True, True, False, True]
    for reason, said in zip(
        reasons[1:6], ("m: got 'many'", "latency: got '0'", "gemm_dtype: got 'fp3'", "gpu", "engine"), strict=True
    ):
        assert said in reason
    assert "kernel other" in reasons[7]


def test_raw_and_packed_tables_say_the_same(tmp_path: Path, cat: Catalog) -> None:
    raw, packed = tmp_path / "gemm.h100-sxm.vllm.csv", tmp_path / "t.csv.gz"
    text = GEMM + "h100-sxm,vllm,1,torch,bfloat16,1024,4096,4096,0.06\n"
    raw.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    first, second = (validate_operators(read_operators(p), cat)["predictions"][0] for p in (raw, packed))
    assert first == second


def test_context_and_generation_are_told_by_their_steps(tmp_path: Path) -> None:
    head = "gpu,engine,kernel_source,engine_version,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,step,latency\n"
    path = tmp_path / "mine.csv"
    path.write_text(head + "h100-sxm,trtllm,k,1,bfloat16,bfloat16,128,1,1024,0,0.1\n")
    assert read_operators(path).name == "context_mla"
    path.write_text(head + "h100-sxm,trtllm,k,1,bfloat16,bfloat16,128,1,1,900,0.1\n")
    assert read_operators(path).name == "generation_mla"
    path.write_text(head.replace("step", "step,gemm_type") + "h100-sxm,trtllm,k,1,bf,bf,128,1,1,900,x,0.1\n")
    with pytest.raises(InputError, match="whole attention block"):
        read_operators(path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.csv"
    assert run(["validate", str(MEASURED / "mla_bmm.csv.gz"), "--json", "--predictions", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "operators"
    lines = list(csv.DictReader(out.open()))
    assert len(lines) == document["rows"]
    assert float(lines[0]["predicted_latency_us"]) > 0
    assert run(["validate", str(MEASURED / "mla_bmm.csv.gz")]) == 0
    assert "Worst rows" in capsys.readouterr().out
    assert run(["validate", str(MEASURED / "mla_bmm.csv.gz"), "--gpu", "h100-sxm"]) == 2
