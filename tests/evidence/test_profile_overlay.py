"""A user's own runs shift the prediction of their deployment, narrow its interval, and nothing else's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.catalog.loader import data_root
from planner.cli import run
from planner.errors import InputError
from planner.evidence.e2e_keys import interval_document
from planner.evidence.profile_overlay import (
    FOLDER,
    fit_overlay,
    overlay_document,
    posterior,
    profile_adjustment,
    read_overlay,
    read_overlays,
)
from planner.evidence.runs import read_runs, runs_from_rows
from planner.scenario.safe_yaml import dump_yaml

HEADER = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,pp,attention_dp,moe_tp,ep,ttft_ms,tpot_ms\n"
CLASSES = ["new_gpu"]
EFFICIENCY = data_root() / "hardware_db" / "efficiency"


def table(factor: float, count: int) -> str:
    rows = [f"Qwen/Qwen3-32B,l40s,vllm,1000,500,{2 + i},4,1,1,4,1,,{60.0 * factor}" for i in range(count)]
    return HEADER + "\n".join(rows) + "\n"


@settings(max_examples=40, deadline=None)
@given(st.floats(-1.0, 1.0), st.integers(1, 40))
def test_shift_is_shrunk_towards_the_prior_and_spread_shrinks(log_ratio: float, count: int) -> None:
    shift = posterior(np.full(count, log_ratio), "tpot", CLASSES)
    prior = float(interval_document(EFFICIENCY)["classes"]["new_gpu"]["tpot"]["q50"])
    assert min(prior, log_ratio) - 1e-9 <= shift.log_shift <= max(prior, log_ratio) + 1e-9
    assert shift.log_spread < shift.prior_log_spread
    more = posterior(np.full(count + 5, log_ratio), "tpot", CLASSES)
    assert abs(more.log_shift - log_ratio) <= abs(shift.log_shift - log_ratio) + 1e-9


def test_scattered_runs_narrow_less_than_runs_that_agree() -> None:
    agree = posterior(np.full(8, 0.2), "ttft", CLASSES)
    scatter = posterior(0.2 + 0.4 * np.array([-1, 1, -1, 1, -1, 1, -1, 1.0]), "ttft", CLASSES)
    assert agree.log_spread < scatter.log_spread


def test_one_run_of_another_kind_does_not_carry_the_others_along() -> None:
    plain = posterior(np.full(9, 0.1), "tpot", CLASSES)
    with_stray = posterior(np.array([0.1] * 9 + [4.0]), "tpot", CLASSES)
    assert with_stray.log_shift == pytest.approx(plain.log_shift, abs=0.05)


def test_the_interval_covers_runs_that_were_not_used() -> None:
    """Deployments drawn from the model: the stated 80 % holds about 80 % of further runs."""
    rng = np.random.default_rng(7)
    prior = posterior(np.zeros(1), "tpot", CLASSES).prior_log_spread
    inside = 0
    for _ in range(600):
        factor = rng.normal(0.0, np.sqrt(0.67) * prior)
        runs = factor + rng.normal(0.0, np.sqrt(0.33) * prior, 6)
        shift = posterior(runs[:5], "tpot", CLASSES)
        inside += abs(runs[5] - shift.log_shift) <= 1.2816 * shift.log_spread
    assert 0.74 <= inside / 600 <= 0.88


def test_overlay_knows_its_deployment_only(tmp_path: Path, cat: Catalog) -> None:
    (tmp_path / "mine.csv").write_text(table(1.5, 6))
    overlay, left_out = fit_overlay(read_runs(tmp_path / "mine.csv"), cat, name="n", source="s", date="2026-11-30")
    assert left_out == {}
    found = profile_adjustment([overlay], "qwen/qwen3-32b-fp8", "l40s", "vllm", "tpot")
    assert found is not None
    assert found.runs == 6
    assert profile_adjustment([overlay], "Qwen/Qwen3-32B", "h100-sxm", "vllm", "tpot") is None
    assert profile_adjustment([overlay], "Qwen/Qwen3-32B", "l40s", "vllm", "ttft") is None
    slower, _ = fit_overlay(_runs(3.0), cat, name="n", source="s", date="2026-11-30")
    other = profile_adjustment([slower], "Qwen/Qwen3-32B", "l40s", "vllm", "tpot")
    assert other is not None
    assert other.log_shift > found.log_shift


def _runs(factor: float):  # type: ignore[no-untyped-def]
    lines = table(factor, 6).splitlines()
    names = lines[0].split(",")
    return runs_from_rows([dict(zip(names, line.split(","), strict=True)) for line in lines[1:]])


def test_overlays_of_a_catalogue_folder(tmp_path: Path, cat: Catalog) -> None:
    overlay, _ = fit_overlay(_runs(1.5), cat, name="n", source="s", date="2026-11-30")
    assert read_overlays(None) == read_overlays(tmp_path) == ()
    (tmp_path / FOLDER).mkdir()
    path = tmp_path / FOLDER / "mine.yaml"
    path.write_text(dump_yaml(overlay_document(overlay)))
    (read,) = read_overlays(tmp_path)
    assert read.deployments[0].metrics["tpot"].runs == 6
    path.write_text("schema: other/1\n")
    with pytest.raises(InputError, match=r"planner\.profile/1"):
        read_overlay(path)
    path.write_text("schema: planner.profile/1\nname: x\n")
    with pytest.raises(InputError, match="keys"):
        read_overlay(path)


def test_runs_that_cannot_be_predicted_make_no_profile(cat: Catalog) -> None:
    row = {"model": "nobody/Nothing", "gpu": "l40s", "engine": "vllm", "input_tokens": 10, "output_tokens": 10}
    runs = runs_from_rows(
        [row | {"concurrency": 1, "tp": 1, "pp": 1, "attention_dp": 1, "moe_tp": 1, "ep": 1, "tpot_ms": 5}]
    )
    with pytest.raises(InputError, match="nobody/Nothing"):
        fit_overlay(runs, cat, name="n", source="s", date="2026-11-30")


def test_command_writes_an_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, out = tmp_path / "mine.csv", tmp_path / "overlay.yaml"
    mine.write_text(table(1.3, 5))
    assert run(["calibrate", "--profile", str(mine), "--out", str(out), "--name", "lab"]) == 0
    assert "measured / predicted" in capsys.readouterr().out
    assert read_overlay(out).name == "lab"
    assert run(["calibrate", "--profile", str(mine), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["deployments"][0]["metrics"]["tpot"]["runs"] == 5


def test_what_was_learned_shifts_and_narrows_its_deployment_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, folder = tmp_path / "mine.csv", tmp_path / "catalogue"
    mine.write_text(table(1.5, 6))
    other = tmp_path / "other.csv"
    other.write_text(table(1.5, 1).replace("l40s", "l4").replace("Qwen3-32B", "Qwen3-8B"))
    assert run(["calibrate", "--profile", str(mine), "--out", str(folder), "--name", "My Lab"]) == 0
    assert "--catalog" in capsys.readouterr().err
    assert [p.name for p in (folder / FOLDER).iterdir()] == ["my-lab.yaml"]

    def predicted(file: Path, *options: str) -> dict[str, float]:
        out = tmp_path / "predictions.csv"
        assert run(["validate", str(file), "--json", "--predictions", str(out), *options]) == 0
        report = json.loads(capsys.readouterr().out)
        assert any("own runs" in text for text in report["assumptions"]) == (options != () and file == mine)
        names, first = (line.split(",") for line in out.read_text().splitlines()[:2])
        return {k: float(v) for k, v in zip(names, first, strict=True) if k.endswith("tpot_ms")}

    plain, learned = predicted(mine), predicted(mine, "--catalog", str(folder))
    off = {
        name: abs(np.log(p["predicted_tpot_ms"] / p["measured_tpot_ms"]))
        for name, p in (("plain", plain), ("learned", learned))
    }
    assert off["learned"] < 0.3 * off["plain"]
    width = {k: p["high80_tpot_ms"] / p["low80_tpot_ms"] for k, p in (("plain", plain), ("learned", learned))}
    assert 1.0 < width["learned"] < width["plain"]
    assert predicted(other) == predicted(other, "--catalog", str(folder))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--profile FILE"),
        (["--json"], "--profile FILE"),
        (["--out", "x.yaml", "evidence"], "its options behind evidence"),
        (["--profile", "none.csv"], "none.csv"),
        (["--profile", "mine.csv", "--out", "gone/x.yaml"], "a path in a folder that exists"),
        (["--profile", "mine.csv", "--out", "mine.csv"], "a .yaml file or a catalogue folder"),
        (["--profile", "mine.csv", "--gpu", "abacus"], "--gpu: got 'abacus'"),
    ],
)
def test_what_to_do_is_said(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text(table(1.3, 5))
    assert run(["calibrate", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    if "--json" in words:
        assert said in json.loads(printed.out)["error"]["message"]


def test_borrowed_curves_leave_more_to_learn() -> None:
    near, far = (posterior(np.full(5, 0.8), "tpot", CLASSES, extra) for extra in (0.0, 0.5))
    assert far.prior_log_spread > near.prior_log_spread
    assert 0.8 - far.log_shift < 0.8 - near.log_shift


def test_runs_that_measured_throughput_alone_shift_it_alone(cat: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    head = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,output_tokens_per_s\n"
    path.write_text(head + "".join(f"Qwen/Qwen3-32B,l40s,vllm,1000,500,{n},4,{30 * n}\n" for n in (2, 4, 8)))
    assert run(["validate", str(path), "--json"]) == 0
    overlay, reasons = fit_overlay(read_runs(path), cat, name="n", source="s", date="2026-01-01")
    (deployment,) = overlay.deployments
    assert not reasons
    assert set(deployment.metrics) == {"throughput"}
    assert deployment.metrics["throughput"].runs == 3
