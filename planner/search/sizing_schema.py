"""What a plan says about size over a day, failures and recovery (keys of ``candidates[].sizing``)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.scenario.base import Schema

FailureKind = Literal["gpu", "node", "rack"]


class DayPlan(Schema):
    """The fleet over a day of 24 hours; counts of decode workers where the pools are separate."""

    hourly_rps: tuple[float, ...] = Field(strict=False, description="Requests per second, hour by hour.")
    hourly_replicas: tuple[int, ...] = Field(
        strict=False, description="Workers that each hour needs, those that must start before the next one included."
    )
    hourly_prefill_workers: tuple[int, ...] | None = Field(
        None, strict=False, description="disagg: prefill workers, hour by hour."
    )
    hourly_gpus: tuple[int, ...] = Field(strict=False, description="GPUs of all workers, hour by hour.")
    mean_rps: float = Field(description="Mean rate of the day in requests per second.")
    peak_gpus: int = Field(description="GPUs of a fleet of fixed size.")
    average_gpus: float = Field(description="Mean GPUs of an autoscaled fleet.")
    lowest_gpus: int = Field(description="Lower end of the autoscaling range in GPUs; its upper end is the peak.")
    saved_share: float = Field(description="Part of the GPU-hours that autoscaling saves.")
    start_s: float = Field(description="Seconds from the order to start a worker until it serves.")
    usd_per_day_fixed: float | None = Field(
        None, description="Rent of the fixed fleet in USD per day: whole nodes, spare ones included."
    )
    usd_per_day_autoscaled: float | None = Field(
        None, description="Rent of the autoscaled fleet in USD per day; spare nodes are paid for all day."
    )
    usd_per_mtok_output_fixed: float | None = Field(
        None, description="Rent of the fixed fleet over the output of the whole day, USD per million tokens."
    )
    usd_per_mtok_output_autoscaled: float | None = Field(
        None, description="Rent of the autoscaled fleet over the output of the whole day, USD per million tokens."
    )

    def counts(self) -> dict[str, tuple[int, ...]]:
        """Workers of each kind and GPUs, hour by hour, by what tables call them."""
        workers = {"replicas": self.hourly_replicas}
        if self.hourly_prefill_workers is not None:
            workers = {"prefill workers": self.hourly_prefill_workers, "decode workers": self.hourly_replicas}
        return {**workers, "GPUs": self.hourly_gpus}


class FailurePlan(Schema):
    """What k failures of a kind at once do, and the spares that keep the SLO through them."""

    failure: FailureKind = Field(description="What fails: a GPU, a node (host) or a rack.")
    count: int = Field(description="How many fail at once: the k of N + k.")
    lost_replicas: int = Field(description="Workers that are lost at most (disagg: of the decode pool).")
    lost_prefill_workers: int | None = Field(
        None,
        description="disagg: workers of the prefill pool that are lost at most; with those of the other where both "
        "share nodes.",
    )
    met_without_spares: bool | None = Field(
        description="Whether the workers that are left still meet every limit, whichever pool is hit (disagg); null in "
        "a closed loop."
    )
    ttft_p99_ms: float | None = Field(
        None,
        description="P99 of TTFT without spares in milliseconds, of the pool whose loss is worse; null if unstable.",
    )
    tbt_p99_ms: float | None = Field(
        None,
        description="P99 of TBT without spares in milliseconds, of the pool whose loss is worse; null if unstable.",
    )
    spare_replicas: int = Field(description="Workers to add so that the SLO holds after the failures.")
    spare_prefill_workers: int | None = Field(None, description="disagg: prefill workers to add.")
    spare_nodes: int = Field(description="Nodes to add for them beyond those of the plan, spare ones included.")
    gpus: int = Field(description="GPUs of the deployment with these spares.")
    per_year: float | None = Field(None, description="Expected failures of this kind in a year; null where not known.")
    covered: bool = Field(description="Whether the nodes of the plan, spare ones included, have room for them.")


class RecoveryPlan(Schema):
    """How long a failed worker is away, part by part in seconds, where other hardware is at hand."""

    detection_s: float = Field(description="Until the failure is noticed.")
    restart_s: float = Field(description="Scheduling, container and process start.")
    weights_s: float = Field(description="Reading the weights.")
    warm_up_s: float = Field(description="Memory profile and kernel tuning.")
    graphs_s: float = Field(description="Capture of CUDA graphs.")
    reprefill_s: float | None = Field(
        description="Lost KV computed again as far as the other workers had no room for it; null: they never have."
    )
    total_s: float | None = Field(description="All of it.")
    weight_gib_per_node: float = Field(description="Weights that one node reads in GiB.")
    weight_read_gb_s: float = Field(description="Rate at which a node reads them in GB/s.")
    lost_requests: float = Field(description="Requests in flight in the worker.")
    lost_tokens: float = Field(description="Tokens of KV cache that they held.")
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each input comes from: the scenario, or the shipped value's source."
    )


class Sizing(Schema):
    """Size of the fleet against its load, over a day and through failures."""

    fleet: str = Field(description="The fleet in one sentence: GPUs = replicas x layout.")
    needed_replicas: int = Field(description="Fewest workers that meet every limit at the planned load.")
    needed_prefill_workers: int | None = Field(
        None, description="disagg: fewest prefill workers that do so beside needed_replicas decode workers."
    )
    carried_rps: float | None = Field(
        None, description="Highest rate that they carry within every limit, requests per second; null in a closed loop."
    )
    day: DayPlan | None = Field(None, description="Over a day, where the scenario has a daily profile.")
    failures: tuple[FailurePlan, ...] = Field((), strict=False, description="GPU, node and rack failures.")
    recovery: RecoveryPlan = Field(description="After the loss of one worker.")
    unavailable_share: float = Field(
        description="Part of the time that a (decode) worker is down: its failures times its recovery."
    )
    prefill_unavailable_share: float | None = Field(None, description="disagg: the same of a prefill worker.")
    slo_availability: float = Field(
        description="Part of the time with enough workers of every pool up, spare nodes included, failures independent."
    )
