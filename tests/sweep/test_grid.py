"""Grids: every combination, in order, named; paths that do not exist are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.errors import InputError
from planner.sweeps.grid import expand, load_grid, short_keys

BASE = {"name": "base", "workload": {"rate": 1}, "hardware": {"candidates": [{"node": "a"}]}}


def test_the_last_key_varies_fastest() -> None:
    out = expand(BASE, {"workload.rate": [1, 2], "hardware.candidates.0.node": ["x", "y"]})
    assert [(o["workload"]["rate"], o["hardware"]["candidates"][0]["node"]) for o in out] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (2, "y"),
    ]
    assert out[3]["name"] == "base: rate 2, node y"
    assert BASE["workload"] == {"rate": 1}


def test_a_long_name_keeps_what_tells_the_points_apart() -> None:
    names = [o["name"] for o in expand(BASE | {"name": "long " * 50}, {"workload.rate": [1, 2]})]
    assert [len(n) for n in names] == [200, 200]
    assert [n[-8:] for n in names] == [": rate 1", ": rate 2"]


def test_missing_mappings_are_made() -> None:
    assert expand(BASE, {"slo.tpot_ms.mean": [50]})[0]["slo"] == {"tpot_ms": {"mean": 50}}


@pytest.mark.parametrize("path", ["hardware.candidates.1.node", "hardware.candidates.x.node", "name.a.b", "name.a"])
def test_paths_that_do_not_exist(path: str) -> None:
    with pytest.raises(InputError, match=r"grid\."):
        expand(BASE, {path: [1]})


def test_too_many() -> None:
    with pytest.raises(InputError, match="at most"):
        expand(BASE, {f"k{i}": list(range(1000)) for i in range(3)})


def test_files(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("name: base\na: 1\n")
    grid = tmp_path / "grid.yaml"
    grid.write_text("schema: planner.sweep/1\nbase: base.yaml\ngrid: {a: [1, 2], b.c: [x]}\n")
    assert [o["a"] for o in load_grid(grid)] == [1, 2]
    grid.write_text("schema: planner.sweep/1\nbase: {name: inline}\ngrid: {a: [3]}\n")
    assert load_grid(grid)[0]["name"] == "inline: a 3"
    for text in (
        "schema: planner.sweep/1\nbase: ../base.yaml\ngrid: {a: [1]}\n",
        "schema: planner.sweep/1\nbase: base.yaml\ngrid: {a: []}\n",
        "schema: planner.sweep/2\nbase: base.yaml\ngrid: {a: [1]}\n",
        "schema: planner.sweep/1\nbase: base.yaml\ngrids: {a: [1]}\n",
    ):
        grid.write_text(text)
        with pytest.raises(InputError):
            load_grid(grid)


def test_keys_that_end_alike_are_told_apart() -> None:
    grid = {"slo.ttft_ms.p95": [2000], "slo.tpot_ms.p95": [60], "hardware.pools.prefill.0.node": ["x"]}
    assert expand({"name": "base", "hardware": {"pools": {"prefill": [{"node": "a"}]}}}, grid)[0]["name"] == (
        "base: ttft_ms.p95 2000, tpot_ms.p95 60, node x"
    )
    ends = ["a.b", "b", "c.a.b", "x.0.node", "x.1.node"]
    assert short_keys(ends) == ["a.b", "b", "c.a.b", "0.node", "1.node"]


@pytest.mark.parametrize("where", ["{folder}/base.yaml", "../base.yaml", "none.yaml"])
def test_a_base_elsewhere_is_refused_with_what_is_allowed(where: str, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("name: base\n")
    folder = tmp_path / "grids"
    folder.mkdir()
    (folder / "grid.yaml").write_text(
        f"schema: planner.sweep/1\nbase: {where.format(folder=tmp_path)}\ngrid: {{a: [1]}}\n"
    )
    with pytest.raises(InputError, match=r"base: .*in the folder of grid\.yaml or below it, by its path from there"):
        load_grid(folder / "grid.yaml")


SHIPPED = sorted((Path(__file__).resolve().parents[2] / "examples" / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_grids_are_answered(path: Path) -> None:
    rows = planner.sweep(load_grid(path))
    assert {r["status"] for r in rows} == {"ok"}


def test_the_guide_shows_a_shipped_grid() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "spreadsheets.md").read_text(encoding="utf-8")
    text = SHIPPED[0].read_text(encoding="utf-8")
    assert f"examples/sweeps/{SHIPPED[0].name}" in guide
    assert text[text.index("\ngrid:") :].strip() in guide
