"""Where splitting pays: corners that can be told by hand, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli.app import run
from planner.cli.split_cmd import against
from planner.errors import InputError
from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.split_map import split_map

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-3.3-70b-mi300x.yaml"


def scenario(nodes: int | None = None, **slo: Any) -> Scenario:
    data = load_scenario(EXAMPLE).to_dict()
    data["hardware"] = {"candidates": [{"node": "dgx-h200", "max_nodes": nodes}]}
    data["workload"]["output_tokens"] = {"kind": "fixed", "tokens": 200}
    data["workload"]["arrival"] = {"kind": "poisson", "rate_rps": 1.0}
    data["workload"]["prefix_hit_rate"] = 0.0
    data["slo"] = slo
    data["economics"] = {}
    return Scenario.from_dict(data)


def test_one_small_worker_beats_two_pools() -> None:
    """Half a request of 200 tokens a second leaves one worker idle: two pools cannot take fewer GPUs than that."""
    (cell,) = split_map(scenario(), [200], [0.5])
    assert cell.winner == "agg"
    assert cell.aggregated is not None
    assert cell.disaggregated is not None
    assert cell.disaggregated.gpus >= cell.aggregated.gpus
    assert cell.saving is not None
    assert cell.saving <= 0.0


def test_only_pools_keep_gaps_short_beside_long_prompts() -> None:
    """Two prompts of 30,000 tokens a second (10,000 tokens a second and more on each of the GPUs that hold the model)
    share steps with more than one gap in a hundred, unless hundreds of GPUs make them rare; decode workers of their own
    never see one. Four nodes are enough for pools."""
    asked = scenario(4, tbt_ms={"p99": 40.0}, ttft_ms={"mean": 20_000.0})
    (cell,) = split_map(asked, [30_000], [2.0])
    assert cell.winner == "disagg"
    assert cell.aggregated is None
    assert cell.saving is None
    assert cell.reason.startswith("aggregated: ")
    assert cell.disaggregated is not None
    assert cell.disaggregated.gpus <= 32


def test_neither_meets_an_impossible_limit() -> None:
    (cell,) = split_map(scenario(ttft_ms={"p50": 1.0}), [4000], [1.0])
    assert cell.winner == "none"
    assert " and split: " in cell.reason


def test_cells_come_by_length_then_rate_and_report_progress() -> None:
    seen: list[tuple[int, int]] = []
    cells = split_map(scenario(), [500, 1000], [1.0, 4.0], progress=lambda done, whole: seen.append((done, whole)))
    assert [(c.input_tokens, c.rate_rps) for c in cells] == [(500, 1.0), (500, 4.0), (1000, 1.0), (1000, 4.0)]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_has_no_map_is_refused() -> None:
    with pytest.raises(InputError, match="at least one length"):
        split_map(scenario(), [], [1.0])
    data = scenario().to_dict()
    data["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": 8}
    with pytest.raises(InputError, match="an offered rate"):
        split_map(Scenario.from_dict(data), [500], [1.0])
    data = scenario().to_dict()
    data["hardware"] = {"pools": {"prefill": [{"node": "dgx-h100"}], "decode": [{"node": "dgx-h200"}]}}
    data["search"]["serving"] = ["disagg"]
    with pytest.raises(InputError, match=r"hardware\.candidates"):
        split_map(Scenario.from_dict(data), [500], [1.0])


def test_the_command_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "question.yaml"
    path.write_text(scenario().to_yaml(), encoding="utf-8")
    assert run(["split-map", str(path), "--lengths", "200", "--rates", "0.5", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["winner"] == "agg"
    assert run(["split-map", str(path), "--lengths", "200", "--rates", "0.5"]) == 0
    assert "together" in capsys.readouterr().out
    assert run(["split-map", str(path), "--lengths", "0", "--rates", "1"]) == 2
    assert "--lengths" in capsys.readouterr().err
    assert run(["split-map", str(path), "--lengths", "100", "--rates", "fast"]) == 2


def test_the_sentence_is_in_what_is_billed() -> None:
    """On whole nodes with a price, GPUs do not decide: the sentence and the table name dollars and nodes."""
    data = scenario().to_dict()
    data["economics"] = {"usd_per_gpu_hour": {"dgx-h200": 3.0}}
    (cell,) = split_map(Scenario.from_dict(data), [200], [0.5])
    assert cell.aggregated is not None
    assert cell.disaggregated is not None
    together, apart = cell.aggregated.usd_per_hour, cell.disaggregated.usd_per_hour
    assert together is not None
    assert apart is not None
    assert cell.saving == pytest.approx(1.0 - apart / together)
    assert f"${together:,.2f} an hour" in cell.reason
    assert f"${apart:,.2f} split" in cell.reason


def test_costs_in_words() -> None:
    assert [against(v) for v in (None, 0.0, -1.0, 0.25)] == ["–", "the same", "100 % more", "25 % less"]


def test_free_gpus_are_compared_by_number() -> None:
    data = scenario().to_dict() | {"economics": {"usd_per_gpu_hour": {"dgx-h200": 0.0}}}
    (cell,) = split_map(Scenario.from_dict(data), [200], [0.5])
    assert cell.aggregated is not None
    assert cell.disaggregated is not None
    assert cell.saving == pytest.approx(1.0 - cell.disaggregated.gpus / cell.aggregated.gpus)
    assert f"{cell.aggregated.gpus} GPUs aggregated, {cell.disaggregated.gpus} split" in cell.reason


def test_pools_that_cost_rent_lose_to_serving_that_does_not() -> None:
    data = scenario().to_dict()
    data["hardware"]["pools"] = {"prefill": [{"node": "dgx-h100"}], "decode": [{"node": "dgx-h200"}]}
    data["economics"] = {"usd_per_gpu_hour": {"dgx-h200": 0.0, "dgx-h100": 2.0}}
    (cell,) = split_map(Scenario.from_dict(data), [200], [0.5])
    assert cell.winner == "agg"
    assert cell.saving is None
    assert cell.reason.startswith("aggregated serving costs no rent")
