"""Single runs in another unit are named and left out; a whole column of them, and slow runs, are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.cli import run
from planner.evidence.runs import runs_from_rows
from planner.evidence.unit_slips import without_slips

HEADER = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,ttft_ms,tpot_ms\n"


def _dropped(*tpot_ms: float) -> tuple[list[int], list[str]]:
    """Positions of runs of which nothing is left, with 30 ms predicted of each."""
    rows = [
        {"run_id": f"r{i}", "model": "m", "gpu": "g", "engine": "vllm", "tpot_ms": t, "output_tokens_per_s": 9.0}
        for i, t in enumerate(tpot_ms)
    ]
    runs = runs_from_rows(rows)
    at = np.arange(len(rows))
    kept, said = without_slips(runs, at, {"ttft_ms": np.full(at.size, np.nan), "tpot_ms": np.full(at.size, 30.0)})
    gone = np.isnan(kept["tpot_ms"]) & np.isnan(kept["output_tokens_per_s"])
    return np.flatnonzero(gone).tolist(), list(said)


def test_one_run_in_seconds_is_named_and_dropped() -> None:
    gone, (said,) = _dropped(28.0, 0.03, 35.0)
    assert gone == [1]
    assert said == "tpot_ms of run r1: as if seconds stood in a column of milliseconds; left out"


def test_many_are_counted() -> None:
    gone, (said,) = _dropped(*[0.03] * 8, 30.0)
    assert gone == list(range(8))
    assert "of run r0, run r1, run r2, run r3, run r4 and 3 more" in said


@pytest.mark.parametrize("times", [(0.03, 0.04), (30.0, 300.0, 3.0), (30.0, 30_000.0)])
def test_whole_columns_poor_predictions_and_queues_stay(times: tuple[float, ...]) -> None:
    assert _dropped(*times) == ([], [])


def test_both_commands_say_which_run_they_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    rows = [f"Qwen/Qwen3-32B,l40s,vllm,1000,500,{2 + i},4,,{30 if i else 0.03}\n" for i in range(4)]
    path.write_text(HEADER + "".join(rows))
    for words, name in ((["validate", str(path)], "run 1"), (["calibrate", "--profile", str(path)], "row 1")):
        assert run(words) == 0
        assert f"tpot_ms of {name}: as if seconds stood" in capsys.readouterr().out
