"""The workbook's sheet on size over a day, failures and recovery; recovery times are inputs and add up live."""

from __future__ import annotations

from planner.export.workbook.book import Book, Sheet, cell
from planner.search.sizing_schema import DayPlan, FailurePlan, RecoveryPlan, Sizing
from planner.units import GIB, GIGA

NAME = "Size and failures"
RECOVERY_INPUTS = (
    ("detection_s", "detection"),
    ("restart_s", "restart on other hardware"),
    ("warm_up_s", "memory profile and kernel tuning"),
    ("graphs_s", "CUDA graphs"),
    ("reprefill_s", "lost KV computed again"),
)
SOURCE_OF = {"graphs_s": "graph_capture_s"}


def write_sizing(book: Book, sizing: Sizing) -> None:
    """One sheet: the fleet, failures, recovery, and the day with a chart where there is one."""
    sheet = book.sheet(NAME)
    sheet.widths(42, 16, 16, 16, 14, 16, 14, 16)
    sheet.put(0, 0, sizing.fleet, "title")
    sheet.line(2, ("highest load carried within every limit, requests/s", sizing.carried_rps))
    sheet.put(3, 0, "part of the time with enough workers up")
    sheet.put(3, 1, sizing.slo_availability, "uptime")
    row = _failures(sheet, 5, sizing.failures)
    row = _recovery(sheet, row + 1, sizing.recovery)
    if sizing.day is not None:
        _day(book, sheet, row + 1, sizing.day)


def _failures(sheet: Sheet, row: int, failures: tuple[FailurePlan, ...]) -> int:
    lost = ("(decode) workers lost at most", "prefill workers lost at most")
    spare = ("spare (decode) workers", "spare prefill workers", "nodes to add")
    sheet.line(row, ("loss of", "limits met without spares", *lost, *spare, "single ones expected a year"), "head")
    for i, f in enumerate(failures, start=row + 1):
        sheet.put(i, 0, f"{f.count} x {f.failure}")
        sheet.put(i, 1, f.met_without_spares)
        lost_or_spare = (f.lost_replicas, f.lost_prefill_workers, f.spare_replicas, f.spare_prefill_workers)
        sheet.line_from(i, 2, (*lost_or_spare, f.spare_nodes), "whole")
        sheet.put(i, 7, f.per_year)
    return row + 1 + len(failures)


def _recovery(sheet: Sheet, row: int, recovery: RecoveryPlan) -> int:
    sheet.line(row, ("recovery of one worker: change the yellow cells", "seconds", "source"), "head")
    first = row + 1
    for i, (key, name) in enumerate(RECOVERY_INPUTS, start=first):
        sheet.put(i, 0, name)
        sheet.put(i, 1, getattr(recovery, key), "input")
        sheet.put(i, 2, recovery.sources.get(SOURCE_OF.get(key, key)), "note")
    size, rate = first + len(RECOVERY_INPUTS), first + len(RECOVERY_INPUTS) + 1
    sheet.line(size, ("weights that a node reads, GiB", recovery.weight_gib_per_node))
    sheet.put(rate, 0, "rate at which it reads them, GB/s")
    sheet.put(rate, 1, recovery.weight_read_gb_s, "input")
    sheet.put(rate, 2, recovery.sources.get("weight_read_gb_s"), "note")
    sheet.put(rate + 1, 0, "reading the weights")
    reading = f"={cell(size, 1)}*{GIB}/{GIGA:.0f}/{cell(rate, 1)}"
    sheet.formula(rate + 1, 1, reading, recovery.weights_s)
    sheet.put(rate + 2, 0, "in all")
    whole = f"=SUM({cell(first, 1)}:{cell(size - 1, 1)})+{cell(rate + 1, 1)}"
    sheet.formula(rate + 2, 1, whole, recovery.total_s)
    return rate + 3


def _day(book: Book, sheet: Sheet, row: int, day: DayPlan) -> None:
    figures = (
        ("mean load, requests/s", day.mean_rps),
        ("GPUs at the peak", day.peak_gpus),
        ("GPUs on average, autoscaled", day.average_gpus),
        ("GPUs at least", day.lowest_gpus),
        ("USD per day, fixed fleet, spare nodes included", day.usd_per_day_fixed),
        ("USD per day, autoscaled, spare nodes included", day.usd_per_day_autoscaled),
        ("USD per million output tokens over the day, fixed fleet", day.usd_per_mtok_output_fixed),
        ("USD per million output tokens over the day, autoscaled", day.usd_per_mtok_output_autoscaled),
    )
    for i, figure in enumerate(figures, start=row):
        sheet.line(i, figure)
    head = row + len(figures) + 1
    counts = day.counts()
    gpus = 1 + len(counts)
    sheet.line(head, ("hour of the day", "requests/s", *counts), "head")
    for h, (rate, *numbers) in enumerate(zip(day.hourly_rps, *counts.values(), strict=True)):
        sheet.put(head + 1 + h, 0, h, "whole")
        sheet.put(head + 1 + h, 1, rate)
        sheet.line_from(head + 1 + h, 2, numbers, "whole")
    last = head + len(day.hourly_rps)
    chart = book.xlsx.add_chart({"type": "column"})
    chart.add_series(
        {
            "name": "GPUs",
            "categories": [NAME, head + 1, 0, last, 0],
            "values": [NAME, head + 1, gpus, last, gpus],
            "fill": {"color": "#0072b2"},
        }
    )
    chart.set_title({"name": "GPUs over a day"})
    chart.set_x_axis({"name": "hour"})
    chart.set_y_axis({"name": "GPUs", "min": 0})
    chart.set_legend({"none": True})
    sheet.xlsx.insert_chart(head, gpus + 2, chart)
