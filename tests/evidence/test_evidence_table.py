"""The runs behind the coefficients: live and shipped agree; nearness counts what differs."""

import numpy as np
import pytest

from planner.catalog import catalog
from planner.catalog.loader import data_root
from planner.evidence.evidence_table import (
    MEMORY_FILE,
    MEMORY_METRICS,
    METRICS,
    RUNS_FILE,
    evidence_table,
    memory_evidence,
    read_evidence,
    write_evidence,
)
from planner.evidence.memory_validate import memory_metrics
from planner.evidence.nearness import WEIGHTS, Place, nearness
from planner.evidence.run_terms import architecture_name

MEASURED = data_root() / "measured"
LARGEST_BYTES = 300_000

pytestmark = pytest.mark.skipif(not MEASURED.is_dir(), reason="measured/ is not part of this installation")


@pytest.fixture(scope="module")
def table():
    return evidence_table(catalog())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("evidence")
    write_evidence(MEASURED, out, catalog())
    return out


def test_what_is_written_reads_back(table, written):
    again = read_evidence(written / RUNS_FILE)
    assert table.live
    assert not again.live
    assert again.runs.text == table.runs.text
    assert again.layouts == table.layouts
    for metric in METRICS:
        assert np.allclose(again.predicted[metric], table.predicted[metric], rtol=1e-4, equal_nan=True)
        assert np.allclose(again.runs[metric], table.runs[metric], equal_nan=True)
    assert (written / RUNS_FILE).stat().st_size < LARGEST_BYTES


def test_memory_reads_back(written, monkeypatch):
    live = memory_evidence(catalog())
    monkeypatch.setattr("planner.evidence.evidence_table.data_root", lambda: written.parent / "nothing")
    folder = written.parent / "nothing" / "hardware_db" / "efficiency"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MEMORY_FILE).write_bytes((written / MEMORY_FILE).read_bytes())
    shipped = memory_evidence(catalog())
    assert [r.model for r in shipped] == [r.model for r in live]
    assert [r.fits for r in shipped] == [r.fits for r in live]
    for name, found in memory_metrics(live).items():
        assert name in MEMORY_METRICS
        assert memory_metrics(shipped)[name]["median_ape"] == pytest.approx(found["median_ape"], abs=1e-3)


def test_writing_twice_gives_equal_bytes(written, tmp_path):
    write_evidence(MEASURED, tmp_path, catalog())
    for name in (RUNS_FILE, MEMORY_FILE):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes()


def test_the_shipped_files_hold_every_run(table):
    shipped = read_evidence(data_root() / "hardware_db" / "efficiency" / RUNS_FILE)
    assert shipped.runs.text["run_id"] == table.runs.text["run_id"]


def test_a_run_is_nearest_to_itself(table):
    row = 7
    text, runs = table.runs.text, table.runs
    place = Place(
        architecture_name(text["model"][row]),
        text["gpu"][row],
        text["engine"][row],
        text["serving"][row],
        table.layouts[row],
        float(runs["input_tokens"][row]),
        float(runs["output_tokens"][row]),
        float(runs["concurrency"][row]),
    )
    near = nearness(table, place, catalog())
    assert near.score[row] == 0.0
    assert near.score[near.order()[0]] == 0.0
    assert near.agreeing(*WEIGHTS) >= 1
    assert near.agreeing("gpu") >= near.agreeing("gpu", "model") >= near.agreeing(*WEIGHTS)
