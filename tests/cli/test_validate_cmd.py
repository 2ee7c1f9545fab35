"""Tables are recognised by their columns; predictions land in a file with one row a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli import run
from planner.cli.validate_cmd import catalog_with_models, profile_kind
from planner.errors import InputError

MEMORY = "model,gpu,gpu_mem_gib,vllm_version,tp,weights_gib,available_kv_gib,kv_cache_tokens,failed,colour\n"


def test_columns_tell_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(MEMORY)
    assert profile_kind(path) == "memory"
    path.write_text("model,gpu,engine,input_tokens,output_tokens,concurrency,tpot_ms\n")
    assert profile_kind(path) == "e2e"
    for text in ("", "a,b\n1,2\n", "model,gpu\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="needs columns"):
            profile_kind(path)


def test_memory_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "runs.csv", tmp_path / "predictions.csv"
    path.write_text(
        MEMORY
        + "Qwen/Qwen3-32B,H100-80GB,79.19,0.19.0,1,61.03,5.0,20000,False,red\n"
        + "nobody/Nothing-7B,H100-80GB,79.19,0.19.0,1,13.0,55.0,90000,False,blue\n"
    )
    assert run(["validate", str(path), "--json", "--predictions", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["rows"], document["predicted"]) == ("memory", 2, 1)
    assert sum(document["failed"].values()) == 1
    assert document["metrics"]["weights_gib"]["median_ape"] < 0.02
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == 2
    assert rows[1]["reason"]
    assert float(rows[0]["predicted_weights_gib"]) == pytest.approx(61.03, rel=0.02)
    assert run(["validate", str(path)]) == 0
    assert "1 of 2 rows predicted" in capsys.readouterr().out


def test_further_models_join_the_catalogue(tmp_path: Path) -> None:
    from planner.catalog import catalog

    models, overlay = tmp_path / "more", tmp_path / "mine"
    (overlay / "models").mkdir(parents=True)
    models.mkdir()
    text = (Path(__file__).resolve().parents[2] / "model_specs" / "qwen3-8b.yaml").read_text()
    (models / "extra.yaml").write_text(text.replace("id: qwen3-8b", "id: extra", 1))
    (overlay / "models" / "own.yaml").write_text(text.replace("id: qwen3-8b", "id: own", 1))
    with catalog_with_models(models, overlay) as known:
        assert {"extra", "own", "qwen3-8b"} <= set(known.model_ids())
        assert known.model("extra").id == "extra"
    with catalog_with_models(None, None) as known:
        assert known is catalog()
    (models / "named-otherwise.yaml").write_text(text.replace("id: qwen3-8b", "id: further", 1))
    with catalog_with_models(models, None) as known:
        assert known.model("further").id == "further"
    (models / "twice.yaml").write_text(text.replace("id: qwen3-8b", "id: further", 1))
    with pytest.raises(InputError, match="named-otherwise"), catalog_with_models(models, None):
        pass
    with pytest.raises(InputError, match="--models"), catalog_with_models(tmp_path / "none", None):
        pass


def test_options_stand_in_for_columns_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "model,gpu,engine,bench,input_tokens,output_tokens,concurrency,tpot_ms\n"
        "Qwen/Qwen3-32B,h100-sxm,vllm,inferencex,1024,1024,16,20\n"
    )

    def report(*options: str, code: int = 0) -> dict[str, Any]:
        assert run(["validate", str(path), "--json", *options]) == code
        return json.loads(capsys.readouterr().out)

    assert report(code=2)["failed"] == {"layout: tp is missing": 1}
    assert report("--tp", "2")["predicted"] == 1
    moved = report("--tp", "2", "--gpu", "l40s")
    assert "gpu l40s in place of the file's h100-sxm" in moved["assumptions"]
    out, stated = tmp_path / "p.csv", tmp_path / "stated.csv"
    lines = path.read_text().splitlines()
    stated.write_text(f"{lines[0]},tp\n{lines[1]},2\n")
    found = []
    for file, options in ((path, ["--tp", "2"]), (stated, [])):
        assert run(["validate", str(file), "--predictions", str(out), *options]) == 0
        found.append(next(csv.DictReader(out.open()))["predicted_tpot_ms"])
    assert found[0] == found[1]
    memory = tmp_path / "memory.csv"
    memory.write_text(MEMORY)
    assert run(["validate", str(memory), "--tp", "2"]) == 2


def test_configurations_are_models_too(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "vocab_size": 100,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "Owner__Tiny-1B.json").write_text(json.dumps(config))
    with catalog_with_models(tmp_path, None) as known:
        assert known.model("tiny-1b").hf_id == "Owner/Tiny-1B"


def test_predictions_need_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.csv").write_text(MEMORY)
    for out in (tmp_path, tmp_path / "none" / "p.csv"):
        assert run(["validate", str(tmp_path / "runs.csv"), "--predictions", str(out)]) == 2
        assert "--predictions: got" in capsys.readouterr().err


RUNS = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,tpot_ms\n"
FEW = "model,gpu,gpu_mem_gib,weights_gib,available_kv_gib,kv_cache_tokens\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RUNS, "no rows under its header"),
        (FEW, "no rows under its header"),
        (RUNS + "nobody/None,l40s,vllm,10,10,1,1,5\n", "none of 1 rows could be predicted: model nobody/None"),
        (FEW + "nobody/None,l40s,48,5,5,5\n", "--models FOLDER"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_without_a_prediction_ends_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str, as_json: bool
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert run(["validate", str(path), *(["--json"] if as_json else [])]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.count("\n") == 1
    if as_json:
        assert json.loads(printed.out)["predicted"] == 0


@pytest.mark.parametrize("header", [RUNS, FEW, "gpu,engine,gemm_dtype,m,n,k,latency\n", "a" * 200_000 + ",model\n"])
def test_a_cell_beyond_all_measure_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], header: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(header + "a" * 300_000 + "," * header.count(",") + "\n")
    assert run(["validate", str(path)]) == 2
    told = capsys.readouterr().err
    assert "field larger than field limit" in told
    assert "UTF-8" not in told
