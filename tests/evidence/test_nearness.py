"""Nearest is what is most like the deployment: by model, GPU and engine first, then by layout, lengths and load."""

from dataclasses import replace

import numpy as np
import pytest

from planner.evidence.evidence_table import evidence_table
from planner.evidence.nearness import WEIGHTS, Place, nearness

HOPPER, BLACKWELL = {"h100-sxm", "h200-sxm"}, {"b200-sxm", "gb200-nvl72"}
PLACE = Place("gpt-oss-120b", "h100-sxm", "vllm", "agg", "2.1.1.2.1", 1024.0, 1024.0, 64.0)


@pytest.fixture(scope="module")
def table(cat):
    return evidence_table(cat)


def nearest(table, cat, place, n=1):
    near = nearness(table, place, cat)
    rows = near.order()[:n]
    return near, [{key: table.runs.text[key][r] for key in ("model", "gpu", "engine", "serving")} for r in rows]


def test_what_was_measured_comes_first(table, cat):
    near, found = nearest(table, cat, PLACE, 10)
    assert {(f["gpu"], f["engine"]) for f in found} == {("h100-sxm", "vllm")}
    assert near.agreeing(*WEIGHTS) > 0
    assert near.differs(int(near.order()[0])) == []


def test_a_gpu_that_was_not_measured_takes_runs_of_its_generation(table, cat):
    place = replace(PLACE, model="qwen3-235b-a22b", gpu="h20-96g", engine="sglang", layout="8.1.1.1.8")
    near, found = nearest(table, cat, place, 5)
    assert {f["gpu"] for f in found} <= HOPPER
    assert near.agreeing("gpu") == 0
    _near, found = nearest(table, cat, replace(place, gpu="b300-sxm", model="deepseek-v3"), 5)
    assert {f["gpu"] for f in found} <= BLACKWELL


def test_another_name_of_the_same_layers_is_nearer_than_another_model(table, cat):
    place = Place("llama-3.3-70b", "h200-sxm", "vllm", "agg", "4.1.1.4.1", 1024.0, 1024.0, 64.0)
    near, found = nearest(table, cat, place, 5)
    assert {f["model"] for f in found} == {"meta-llama/Llama-3.1-70B"}
    assert near.agreeing("model") == 0


def test_distance_grows_with_what_differs(table, cat):
    here = nearness(table, PLACE, cat)
    row = int(here.order()[0])
    for change in ({"engine": "sglang"}, {"gpu": "b200-sxm"}, {"model": "deepseek-v3"}, {"layout": "8.1.1.8.1"}):
        assert nearness(table, replace(PLACE, **change), cat).score[row] > here.score[row]
    far = nearness(table, replace(PLACE, input_tokens=8192.0, concurrency=1.0), cat)
    assert far.score[row] > here.score[row]
    assert np.isfinite(far.score).all()


def test_a_slightly_other_layout_is_nearer_than_a_very_other_one(table, cat):
    near = nearness(table, PLACE, cat)
    part = dict(zip(table.layouts, near.parts["layout"], strict=True))
    assert part["2.1.1.2.1"] == 0.0
    assert 0.0 < part["4.1.1.4.1"] < part["8.1.1.8.1"] <= 1.0
