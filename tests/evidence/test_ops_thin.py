"""The tables in measured/ops are the thinned source tables, byte for byte, and small."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.evidence.ops_tables import read_table
from planner.evidence.ops_thin import COLUMNS, thin

MEASURED = Path(__file__).resolve().parents[2] / "measured"


@pytest.mark.shared
def test_thinning_reproduces_the_committed_tables(shared: Path, tmp_path: Path) -> None:
    kept = thin(shared / "measured" / "ops", tmp_path)
    assert set(kept) == set(COLUMNS)
    for name in COLUMNS:
        ours, theirs = tmp_path / f"{name}.csv.gz", MEASURED / "ops" / f"{name}.csv.gz"
        assert gzip.decompress(ours.read_bytes()) == gzip.decompress(theirs.read_bytes()), name


def test_the_measured_folder_stays_under_5_mb() -> None:
    assert sum(p.stat().st_size for p in MEASURED.rglob("*") if p.is_file()) < 5e6


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gemm\.csv\.gz"):
        read_table(tmp_path, "gemm")


def test_columns_are_numbers_where_they_can_be() -> None:
    table = read_table(MEASURED, "nccl")
    assert table.number("latency").min() > 0
    assert set(table["operation"]) == {"all_gather", "all_to_all", "reduce_scatter", "all_reduce"}
    assert table.number("window_size", 0.0).tolist() == [0.0] * len(table)


def test_the_unnamed_fourth_nccl_series_is_all_reduce() -> None:
    """At 512 MiB over 8 GPUs it agrees with custom all-reduce, which hands such sizes to NCCL."""
    nccl, custom = read_table(MEASURED, "nccl"), read_table(MEASURED, "custom_allreduce")
    size = 2.0**28

    def time(table, mask) -> float:
        rows = table.where(mask & (table.number("message_size") == size) & (table.number("num_gpus") == 8))
        return float(rows.where(rows["gpu"] == "h200-sxm").number("latency").mean())

    by_nccl = time(nccl, nccl["operation"] == "all_reduce")
    assert by_nccl == pytest.approx(time(custom, custom["engine"] == "trtllm"), rel=0.05)
