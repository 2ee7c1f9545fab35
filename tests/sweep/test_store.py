"""Results on disk: what goes in comes out, an interruption loses at most the row it cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.search.record import Record, blank
from planner.sweeps.store import COLUMNS, Store


def row(index: int, **changes: object) -> Record:
    known = {"index": index, "key": f"k{index}", "name": f"n{index}", "model": "m"}
    versions = {"planner": "1", "catalogue": "2e3", "coefficients": "0123"}
    all_of_it = {**blank("ok", None), **known, **versions, **changes}
    return {c: all_of_it[c] for c in COLUMNS}  # type: ignore[misc]


ROWS = [
    row(0, gpus=8, ttft_mean_ms=0.1 + 0.2, extrapolated=False),
    row(1, status="error", message='=1+1, "quoted"', name="-x"),
    row(2, layout="TP8", usd_per_hour=1e-9, extrapolated=True, name="'already"),
]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_rows_come_back_equal(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / name)
    for one in ROWS:
        store.append(one)
    store.close()
    assert Store(tmp_path / name).held() == {r["key"]: r for r in ROWS}
    store.finish(ROWS)
    assert list(Store(tmp_path / name).held().values()) == ROWS
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_cut_line_is_dropped_and_work_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    store = Store(path)
    for one in ROWS[:2]:
        store.append(one)
    store.close()
    path.write_bytes(path.read_bytes()[:-20])
    again = Store(path)
    assert list(again.held()) == ["k0"]
    again.append(ROWS[2])
    again.close()
    assert list(Store(path).held()) == ["k0", "k2"]


def test_lost_rows_are_tried_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "out.csv")
    store.append(row(0, status="lost"))
    store.close()
    assert Store(tmp_path / "out.csv").held() == {}


def test_text_like_a_formula_is_marked(tmp_path: Path) -> None:
    Store(tmp_path / "out.csv").finish(ROWS)
    assert "'=1+1" in (tmp_path / "out.csv").read_text()
    assert ",'-x," in (tmp_path / "out.csv").read_text()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "out.csv"
    mine.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="a file of this sweep"):
        Store(mine).held()
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        Store(tmp_path / "out.txt")
    with pytest.raises(InputError, match="folder that exists"):
        Store(tmp_path / "none" / "out.csv")


def test_a_link_stays_a_link_and_a_pipe_is_refused(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe.csv"
    link.symlink_to("rows.csv")
    store = Store(link)
    store.append(ROWS[0])
    store.finish(ROWS)
    assert link.is_symlink()
    assert list(Store(tmp_path / "rows.csv").held().values()) == ROWS
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="a plain file"):
        Store(pipe)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_planned(name: str) -> None:
    with pytest.raises(InputError, match="a folder that can be written"):
        Store(Path("/proc") / name)
