"""The workbook: costs live and equal to the plan's, text never a formula, LibreOffice gets the same numbers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest
from plans import example, renamed

from planner.catalog import catalog
from planner.economics.energy import node_power, power_model
from planner.economics.owning import OwningInputs, owning_cost, owning_defaults, purchase_usd_per_gpu
from planner.errors import InfeasibleError, InputError
from planner.export.workbook.book import cell
from planner.export.workbook.candidates_sheet import CANDIDATE_COLUMNS, HOURS_PER_MONTH
from planner.export.workbook.plan_book import write_plan_book
from planner.scenario.schema import DailyProfile, Scenario
from planner.search.headline import headline
from planner.search.plan_schema import Plan

AT = {key: i for i, (key, _, _) in enumerate(CANDIDATE_COLUMNS)}
COSTS = ("usd_hour", "usd_month", "usd_input", "usd_output")


def written(plan: Plan, folder: Path) -> Path:
    path = folder / "plan.xlsx"
    write_plan_book(plan, path)
    return path


def costs(path: Path) -> list[tuple[object, ...]]:
    sheet = openpyxl.load_workbook(path, data_only=True)["Candidates"]
    return [tuple(row[AT[key]] for key in COSTS) for row in sheet.iter_rows(min_row=2, values_only=True)]


def expected(plan: Plan, factor: float = 1.0) -> list[tuple[float | None, ...]]:
    return [
        tuple(
            None if v is None else pytest.approx(v * factor, rel=1e-9)
            for v in (
                c.usd_per_hour,
                c.usd_per_hour and c.usd_per_hour * HOURS_PER_MONTH,
                c.usd_per_mtok.input,
                c.usd_per_mtok.output,
            )
        )
        for c in plan.candidates
    ]


def summary(path: Path) -> dict[str, object]:
    """Inputs and results by label."""
    sheet = openpyxl.load_workbook(path, data_only=True)["Summary"]
    return {row[0]: row[1] for row in sheet.iter_rows(min_row=5, values_only=True) if row[0] is not None}


def same(found: dict[str, object], expected: dict[str, object]) -> bool:
    """Every cell, numbers to nine digits."""
    assert list(found) == list(expected)
    for key, value in expected.items():
        assert found[key] == (pytest.approx(value, rel=1e-9) if isinstance(value, int | float) else value), key
    return True


def test_the_time_with_enough_workers_up_shows_what_is_missing(tmp_path: Path) -> None:
    plan = example("llama-3.3-70b-mi300x")
    assert plan.best is not None
    assert plan.best.sizing is not None
    sheet = openpyxl.load_workbook(written(plan, tmp_path))["Size and failures"]
    assert sheet["A4"].value == "part of the time with enough workers up"
    assert sheet["B4"].value == pytest.approx(plan.best.sizing.slo_availability, rel=1e-14)
    decimals = sheet["B4"].number_format.split(".")[1]
    assert decimals.endswith(" %")
    assert len(decimals.removesuffix(" %")) >= 8


def test_owning_is_the_cost_pages(tmp_path: Path) -> None:
    """The parts of planner.economics.owning over all GPUs that are paid for, by the month."""
    plan = example("deepseek-r1-h200")
    known, d, best = catalog(), owning_defaults(), plan.candidates[0]
    node = known.node(best.node)
    power = node_power(node, known.accelerator(node.accelerator), power_model())
    gpus = best.nodes * node.gpus
    watts = best.joules_per_token * best.output_tokens_per_s_per_gpu * best.gpus
    purchase = purchase_usd_per_gpu(node.accelerator, known.prices())
    assert purchase is not None
    owner = {k: getattr(d, k).value for k in ("residual_share", "capital_rate_per_year", "maintenance_share_per_year")}
    cost = owning_cost(
        OwningInputs(
            purchase[0],
            server_share=d.server_and_network_share_of_gpu_price.value,
            years=d.depreciation_years.value,
            hosting_usd_per_kw_month=d.hosting_usd_per_kw_month.value,
            electricity_usd_per_kwh=d.electricity_usd_per_kwh.value,
            average_w=watts / gpus,
            provisioned_w=power.facility_provisioned_w,
            **owner,
        )
    )
    values = summary(written(plan, tmp_path))
    assert values["owning, USD per month"] == pytest.approx(float(cost.total) * gpus * HOURS_PER_MONTH)
    for label, part in (("depreciation", cost.depreciation), ("electricity", cost.electricity)):
        assert values[f"owning: {label}, USD per month"] == pytest.approx(float(part) * gpus * HOURS_PER_MONTH)
    hit = plan.scenario.workload.prefix_hit_rate
    assert values["USD per million uncached input tokens"] == pytest.approx(best.usd_per_mtok.input / (1 - hit))


def test_stored_values_are_the_plans(tmp_path: Path) -> None:
    plan = example("deepseek-v3-h800")
    assert costs(written(plan, tmp_path)) == expected(plan)


def test_another_candidate_opens_the_summary(tmp_path: Path) -> None:
    """Its own sentence, values and evidence; the first of the plan is named second."""
    plan = example("deepseek-v3-h800")
    path = tmp_path / "second.xlsx"
    write_plan_book(plan, path, candidate=2)
    first, second = plan.candidates[:2]
    sheet = openpyxl.load_workbook(path, data_only=True)["Summary"]
    assert sheet["A2"].value == headline(plan.model_copy(update={"candidates": (second,)}))
    assert headline(plan) != sheet["A2"].value
    assert str(sheet["A3"].value).startswith(f"Candidate 2 of {len(plan.candidates)}")
    assert headline(plan) in str(sheet["A3"].value)
    found = summary(path)
    assert found["candidate"] == 2
    assert found["TPOT ms"] == pytest.approx(second.tpot_ms.mean)
    assert found["USD per million output tokens"] == pytest.approx(second.usd_per_mtok.output)
    assert second.usd_per_mtok.output != pytest.approx(first.usd_per_mtok.output, rel=1e-6)
    with pytest.raises(InputError, match="rank from 1"):
        write_plan_book(plan, tmp_path / "none.xlsx", candidate=999)
    assert list(tmp_path.iterdir()) == [path]


def test_the_frontier_has_both_pools(tmp_path: Path) -> None:
    plan = example("deepseek-v3-h800")
    sheet = openpyxl.load_workbook(written(plan, tmp_path))["Frontier"]
    rows = list(sheet.iter_rows(min_row=2, values_only=True))
    assert len(rows) == len(plan.pareto)
    apart = [r for r in rows if r[1] == "disagg"]
    assert apart
    for rank, _, _, layout, *_ in apart:
        assert "decode" in layout
        assert ("prefill pool not listed" in layout) == (rank is None)
        pool = None if rank is None else plan.candidates[rank - 1].prefill_pool
        assert pool is None or f"prefill {pool.workers} × ({pool.layout.describe()})" in layout


def test_costs_are_formulas_on_the_price_sheet(tmp_path: Path) -> None:
    book = openpyxl.load_workbook(written(example("deepseek-r1-h200"), tmp_path))
    row = next(book["Candidates"].iter_rows(min_row=2, values_only=True))
    for key in COSTS:
        assert str(row[AT[key]]).startswith("=IF(")
    assert "Prices!" in str(row[AT["usd_hour"]])
    assert book["Frontier"]._charts


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1+1"])
def test_text_like_a_formula_stays_text(text: str, tmp_path: Path) -> None:
    book = openpyxl.load_workbook(written(renamed(example("deepseek-r1-h200"), text), tmp_path))
    found = [c for sheet in book for row in sheet.iter_rows() for c in row if c.value == text]
    assert found
    for one in found:
        assert one.data_type == "s"
        assert one.quotePrefix


def test_no_candidate_no_workbook(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError):
        write_plan_book(example("infeasible-405b-one-h100"), tmp_path / "plan.xlsx")
    with pytest.raises(InputError, match="folder that exists"):
        write_plan_book(example("deepseek-r1-h200"), tmp_path / "none" / "plan.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_cell_names() -> None:
    assert [cell(0, 0), cell(2, 25), cell(9, 26), cell(0, 701), cell(0, 702)] == [
        "$A$1",
        "$Z$3",
        "$AA$10",
        "$ZZ$1",
        "$AAA$1",
    ]


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice (soffice) is not installed")
def test_libreoffice_recalculates_to_the_same_numbers(tmp_path: Path) -> None:
    """Saved by openpyxl the formulas have no stored values: what comes back was computed by LibreOffice."""
    plans = {"split": example("deepseek-v3-h800"), "whole": example("llama-3.3-70b-mi300x")}
    sources = []
    for name, plan in plans.items():
        for factor in (1, 2):
            book = openpyxl.load_workbook(written(plan, tmp_path))
            for row in book["Prices"].iter_rows(min_row=4, min_col=4, max_col=4):
                row[0].value *= factor
            path = tmp_path / f"{name}{factor}.xlsx"
            book.save(path)
            sources.append(str(path))
        path = tmp_path / f"{name}-last.xlsx"
        write_plan_book(plan, path, candidate=plan.candidates[-1].rank)
        bare = tmp_path / "bare" / path.name
        bare.parent.mkdir(exist_ok=True)
        openpyxl.load_workbook(path).save(bare)
        sources.append(str(bare))
    out = tmp_path / "out"
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    done = subprocess.run(
        ["soffice", profile, "--headless", "--convert-to", "xlsx", "--outdir", str(out), *sources],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, plan in plans.items():
        for factor in (1, 2):
            assert costs(out / f"{name}{factor}.xlsx") == expected(plan, factor)
        assert summary(out / f"{name}2.xlsx")["USD per hour"] == pytest.approx(2 * plan.candidates[0].usd_per_hour)
        assert same(summary(out / f"{name}1.xlsx"), summary(written(plan, tmp_path)))
        assert same(summary(out / f"{name}-last.xlsx"), summary(tmp_path / f"{name}-last.xlsx"))


def test_owning_is_not_compared_with_free_gpus(tmp_path: Path) -> None:
    plan = example("deepseek-r1-h200")
    data = plan.scenario.to_dict() | {"economics": {"usd_per_gpu_hour": {"dgx-h200": 0.0}}}
    first = plan.candidates[0].model_copy(update={"usd_per_hour": 0.0})
    free = plan.model_copy(update={"scenario": Scenario.from_dict(data), "candidates": (first,)})
    assert summary(written(free, tmp_path))["owning costs of renting"] == "not compared"


def test_a_price_says_that_it_is_the_busiest_hours(tmp_path: Path) -> None:
    plan = example("qwen3-32b-l40s")
    flat = notes(written(plan, tmp_path))
    assert flat["million output tokens per month"] == "at the planned rate, all hours"
    work = plan.scenario.workload.model_copy(update={"daily_profile": DailyProfile(peak_to_mean=2.5)})
    day = notes(
        written(plan.model_copy(update={"scenario": plan.scenario.model_copy(update={"workload": work})}), tmp_path)
    )
    of_the_day = "of the busiest hour (mean of the day: 0.4 of its load)"
    assert day["million output tokens per month"] == f"at the planned rate {of_the_day}, all hours"
    assert of_the_day in str(day["USD per million output tokens"])


def notes(path: Path) -> dict[str, object]:
    """What stands beside inputs and results, by label."""
    sheet = openpyxl.load_workbook(path, data_only=True)["Summary"]
    return {row[0]: row[2] for row in sheet.iter_rows(min_row=5, values_only=True) if row[0] is not None}
