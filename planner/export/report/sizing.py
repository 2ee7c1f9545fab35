"""The report's section on size over a day, failures and recovery."""

from __future__ import annotations

from collections.abc import Iterator

from planner.export.answers import counted
from planner.export.report.blocks import Block, Paragraph, Table
from planner.search.headline import sig3
from planner.search.plan_schema import AdmissionPolicy, PriorityLatency
from planner.search.sizing_schema import DayPlan, FailurePlan, RecoveryPlan, Sizing
from planner.units import uptime

RECOVERY = (
    ("detection", "detection_s"),
    ("restart on other hardware", "restart_s"),
    ("reading the weights", "weights_s"),
    ("memory profile and kernel tuning", "warm_up_s"),
    ("CUDA graphs", "graphs_s"),
    ("lost KV computed again, beyond what others do meanwhile", "reprefill_s"),
    ("in all", "total_s"),
)


def sizing_blocks(sizing: Sizing) -> Iterator[Block]:
    """Fleet, day, N + k and recovery."""
    yield Paragraph(f"{sizing.fleet}.", strong=True)
    if sizing.carried_rps is not None:
        yield Paragraph(f"It carries up to {counted(sizing.carried_rps)} requests/s within every limit.")
    if sizing.day is not None:
        yield from _day(sizing.day)
    yield _failures(sizing.failures)
    yield Paragraph(
        f"Enough workers are up {uptime(sizing.slo_availability)} of the time, with the spare nodes that the scenario "
        "asks for."
    )
    yield from _recovery(sizing.recovery)


def _day(day: DayPlan) -> Iterator[Block]:
    rows = (
        ("mean load, requests/s", counted(day.mean_rps)),
        ("GPUs at the peak", f"{day.peak_gpus:,}"),
        ("GPUs on average, autoscaled", counted(day.average_gpus)),
        ("GPUs at least", f"{day.lowest_gpus:,}"),
        ("GPU-hours that autoscaling saves", f"{day.saved_share:.0%}"),
        ("seconds for a worker to start", sig3(day.start_s)),
        ("USD per day, fixed fleet, spare nodes included", sig3(day.usd_per_day_fixed)),
        ("USD per day, autoscaled, spare nodes included", sig3(day.usd_per_day_autoscaled)),
        ("USD per million output tokens, fixed fleet", sig3(day.usd_per_mtok_output_fixed)),
        ("USD per million output tokens, autoscaled", sig3(day.usd_per_mtok_output_autoscaled)),
    )
    yield Table(("over a day", "value"), rows)
    counts = day.counts()
    hours = zip(day.hourly_rps, *counts.values(), strict=True)
    yield Table(
        ("hour", "requests/s", *counts),
        tuple((f"{h:02d}:00", counted(rate), *(f"{n:,}" for n in numbers)) for h, (rate, *numbers) in enumerate(hours)),
    )


def _failures(failures: tuple[FailurePlan, ...]) -> Table:
    rows = []
    for f in failures:
        spares = f"{f.spare_replicas:,}"
        if f.spare_prefill_workers is not None:
            spares = f"{f.spare_prefill_workers:,} prefill and {f.spare_replicas:,} decode"
        rows.append(
            (
                f"{f.count} x {f.failure}",
                {True: "yes", False: "no", None: "–"}[f.met_without_spares],
                spares,
                f"{f.spare_nodes:,}",
                "yes" if f.covered else "no",
                sig3(f.per_year),
            )
        )
    columns = (
        "loss of",
        "limits met without spares",
        "spare workers",
        "nodes to add",
        "room in the plan",
        "single ones a year",
    )
    return Table(columns, tuple(rows), 2)


def _recovery(recovery: RecoveryPlan) -> Iterator[Block]:
    rows = tuple((name, sig3(getattr(recovery, key))) for name, key in RECOVERY)
    yield Table(("recovery of one worker", "seconds"), rows)
    sources = "; ".join(f"{name}: {source}" for name, source in recovery.sources.items())
    yield Paragraph(
        f"A node reads {sig3(recovery.weight_gib_per_node)} GiB at {sig3(recovery.weight_read_gb_s)} GB/s; "
        f"{sig3(recovery.lost_requests)} requests with {sig3(recovery.lost_tokens)} tokens are lost. Inputs: {sources}."
    )


def admission_blocks(policy: AdmissionPolicy, priorities: tuple[PriorityLatency, ...]) -> Iterator[Block]:
    """When a worker admits, queues or rejects, and latencies by priority class."""
    held = ", ".join(f"priority {p}: {share:.1%}" for p, share in sorted(policy.held_back.items()))
    rows = (
        ("requests that run at once", f"{policy.max_sequences:,}"),
        ("tokens of one request, prompt and output", f"{policy.max_context_tokens:,}"),
        ("requests that may wait; one more is rejected", f"{policy.max_waiting:,}"),
        ("output that blocks are reserved for", policy.reserve),
        ("blocks kept free for growth", f"{policy.watermark:.1%}"),
        ("blocks left to more urgent requests", held or "none"),
    )
    yield Table(("admission of one worker", "value"), rows)
    if priorities:
        yield Table(
            ("class", "priority", "share", "TTFT mean", "p50", "p95", "p99 ms"),
            tuple(
                (
                    p.name,
                    str(p.priority),
                    f"{p.share:.0%}",
                    *(sig3(v) for v in (p.ttft_ms.mean, p.ttft_ms.p50, p.ttft_ms.p95, p.ttft_ms.p99)),
                )
                for p in priorities
            ),
        )
