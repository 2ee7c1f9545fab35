"""The scenario: the question the planner answers, as a person writes it in YAML.

Every number carries its unit in its key; every field's description is the source of ``planner schema`` and of
the reference page.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from planner.catalog.model_spec import ModelSpec
from planner.scenario.base import Count, Milliseconds, Name, NotNegative, Positive, Schema, Tokens, UsdPerHour
from planner.scenario.engine_schema import Engine
from planner.scenario.lengths import Length
from planner.scenario.loads import Arrival, DailyProfile, PriorityClass

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

SCHEMA_VERSION = "planner.scenario/1"
PERCENTILES = ("mean", "p50", "p90", "p95", "p99")
LATENCY_METRICS = ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms")

ServingMode = Literal["agg", "disagg"]
Objective = Literal["lowest_cost", "fewest_gpus", "highest_goodput", "lowest_energy", "lowest_ttft", "lowest_tbt"]


class PrecisionChoice(Schema):
    """Number format by tensor class; a class left out keeps ``default``, or the checkpoint's own format."""

    default: Name | None = Field(None, description="Format of every weight class not named here.")
    attention: Name | None = Field(None, description="Format of the attention projections.")
    indexer: Name | None = Field(None, description="Format of the sparse-attention indexer's weights.")
    router: Name | None = Field(None, description="Format of the expert router; kept high by default.")
    dense_mlp: Name | None = Field(None, description="Format of dense feed-forward layers.")
    shared_experts: Name | None = Field(None, description="Format of the shared experts.")
    routed_experts: Name | None = Field(None, description="Format of the routed experts.")
    embedding: Name | None = Field(None, description="Format of the input embedding.")
    head: Name | None = Field(None, description="Format of the output head.")
    norm: Name | None = Field(None, description="Format of the norms; kept high by default.")
    vision: Name | None = Field(None, description="Format of a vision tower.")
    kv: Name | None = Field(None, description="Format of the KV cache.")
    activations: Name | None = Field(None, description="Format of activations between operators.")
    dispatch: Name | None = Field(
        None,
        description="Format of tokens sent to experts (dispatch); fp8 is scaled in blocks of 128 values where the "
        "weights of the routed experts are in fp8 or fp4, else with one scale.",
    )
    combine: Name | None = Field(None, description="Format of expert outputs sent back (combine).")

    def given(self) -> dict[str, str]:
        """Only the classes that the scenario names."""
        return {k: v for k, v in self.model_dump().items() if v is not None}


class NodeChoice(Schema):
    """A node type that may be used, and how many of it."""

    node: Name = Field(description="Node type, an id of the node catalogue.")
    min_nodes: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="Smallest number of these nodes in the deployment."
    )
    max_nodes: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="Largest number of these nodes in the deployment, spare ones included (under pools: in the pool); "
        "absent means as many as the load needs.",
    )
    gpus: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="GPUs used in each node; absent means all of them."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise ValueError(f"max_nodes must be at least min_nodes = {self.min_nodes}")
        return self


def _distinct(choices: tuple[NodeChoice, ...], where: str) -> None:
    seen = [(c.node, c.gpus) for c in choices]
    for key in seen:
        if seen.count(key) > 1:
            raise ValueError(f"{where} names node {key[0]!r} twice; give each node type once")


class Pools(Schema):
    """Separate hardware for prefill and for decode (disaggregated serving)."""

    prefill: tuple[NodeChoice, ...] = Field(
        strict=False, min_length=1, max_length=100, description="Node types for prefill workers."
    )
    decode: tuple[NodeChoice, ...] = Field(
        strict=False, min_length=1, max_length=100, description="Node types for decode workers."
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        _distinct(self.prefill, "prefill")
        _distinct(self.decode, "decode")
        return self


class Hardware(Schema):
    """What the deployment may be built from."""

    candidates: tuple[NodeChoice, ...] = Field(
        (), strict=False, max_length=100, description="Node types for workers; each is tried on its own."
    )
    pools: Pools | None = Field(
        None, description="Node types of the prefill and the decode pool; absent means candidates for both."
    )
    max_gpus_per_worker: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="Largest worker (one copy of the model) in GPUs."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.candidates and self.pools is None:
            raise ValueError("needs candidates (node types) or pools (prefill and decode)")
        _distinct(self.candidates, "candidates")
        return self

    @property
    def choices(self) -> tuple[NodeChoice, ...]:
        """All node types that are named, those of both pools too."""
        pools = () if self.pools is None else (*self.pools.prefill, *self.pools.decode)
        return (*self.candidates, *pools)

    def choice(self, node: str) -> NodeChoice:
        """A node type as it is first named; one that is not, with all of its GPUs."""
        return next((c for c in self.choices if c.node == node), NodeChoice(node=node))

    def gpus_of(self, node: str) -> int | None:
        """GPUs of a node that may be used, where a choice of it says so."""
        return next((c.gpus for c in self.choices if c.node == node and c.gpus is not None), None)


class Sampling(Schema):
    """How tokens are chosen; part of the identity of every result."""

    temperature: Annotated[float, Field(ge=0.0, le=100.0)] = Field(
        1.0, description="Sampling temperature; 0 is greedy."
    )
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = Field(1.0, description="Nucleus sampling mass.")
    ignore_eos: bool = Field(False, description="Whether the output always runs to its full length, as benchmarks do.")


class PrefixReuse(Schema):
    """Prompts that begin with one of several shared prefixes: the plan finds how often caches hold it."""

    prefixes: Annotated[int, Field(ge=1, le=20_000)] = Field(description="Different prefixes in use.")
    tokens: Tokens = Field(description="Length of a prefix in tokens, part of every prompt.")
    zipf: Annotated[float, Field(ge=0.0, le=5.0)] = Field(
        1.0, description="Exponent of their popularity by rank; 0 uses all alike."
    )
    routing: Literal["least_loaded", "affinity"] = Field(
        "least_loaded", description="Whether requests go to the least loaded worker or to one that knows the prefix."
    )


class Workload(Schema):
    """The traffic."""

    input_tokens: Length = Field(description="Prompt length in tokens, cached prefix included.")
    output_tokens: Length = Field(description="Generated length in tokens.")
    arrival: Arrival = Field(description="How requests arrive.")
    prefix_hit_rate: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.0, description="Part of prompt tokens found in the prefix cache; with prefix_reuse found by the plan."
    )
    prefix_hit_requests: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None,
        description="Part of requests whose prompt is found in the cache, as far as prefix_hit_rate needs, while the "
        "others compute all of theirs; absent takes every prompt alike, or what prefix_reuse says.",
    )
    prefix_reuse: PrefixReuse | None = Field(
        None, description="Shared prefixes, from which the plan finds the hit rate; absent takes prefix_hit_rate."
    )
    max_new_tokens: Tokens | None = Field(
        None, description="Output cut-off of a request in tokens; absent means none below the context limit."
    )
    tokenizer: Name | None = Field(
        None, description="Tokenizer the lengths were counted with; absent means the checkpoint's own."
    )
    sampling: Sampling = Field(default_factory=Sampling, description="How tokens are chosen.")
    priority_classes: tuple[PriorityClass, ...] = Field(
        (), strict=False, max_length=100, description="Parts of the traffic by priority."
    )
    daily_profile: DailyProfile | None = Field(
        None, description="The load over a day; the arrival's rate is that of the busiest hour."
    )

    @model_validator(mode="after")
    def _hits_fit_in_their_prompts(self) -> Self:
        part = self.prefix_hit_requests
        if part is not None and self.prefix_hit_rate > part:
            raise ValueError(
                f"prefix_hit_requests: {part:g} of the requests cannot hold {self.prefix_hit_rate:g} of all prompt "
                "tokens (prefix_hit_rate); it must be at least as much"
            )
        return self

    @model_validator(mode="after")
    def _day_has_a_rate(self) -> Self:
        if self.daily_profile is not None and self.arrival.kind == "closed_loop":
            raise ValueError("daily_profile needs arrivals with a rate: poisson, gamma or trace, not closed_loop")
        return self

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.priority_classes:
            names = [c.name for c in self.priority_classes]
            twice = next((n for n in names if names.count(n) > 1), None)
            if twice is not None:
                raise ValueError(f"priority_classes: two classes are called {twice}; each needs a name of its own")
            total = sum(c.share for c in self.priority_classes)
            if abs(total - 1.0) > 1e-6:
                raise ValueError(f"priority_classes: the shares add up to {total:g} and must add up to 1")
        return self


class LatencyLimit(Schema):
    """Upper limits in milliseconds at named percentiles."""

    mean: Milliseconds | None = Field(None, description="Limit on the mean in milliseconds.")
    p50: Milliseconds | None = Field(None, description="Limit on the median in milliseconds.")
    p90: Milliseconds | None = Field(None, description="Limit on the 90th percentile in milliseconds.")
    p95: Milliseconds | None = Field(None, description="Limit on the 95th percentile in milliseconds.")
    p99: Milliseconds | None = Field(None, description="Limit on the 99th percentile in milliseconds.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.given():
            raise ValueError(f"needs a limit at one of {', '.join(PERCENTILES)}")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        levels = [(name, limit) for name, limit in self.given().items() if name != "mean"]
        for (low, first), (high, second) in pairwise(levels):
            if first > second:
                raise ValueError(f"the limit at {low}, {first:g} ms, must be at most the one at {high}, {second:g} ms")
        return self

    def given(self) -> dict[str, float]:
        """Percentile name -> limit in ms, only those named."""
        return {p: v for p in PERCENTILES if (v := getattr(self, p)) is not None}


class Slo(Schema):
    """Service-level objective: no limit is implied; an empty mapping says that none is asked."""

    ttft_ms: LatencyLimit | None = Field(None, description="Time to first token in milliseconds.")
    tbt_ms: LatencyLimit | None = Field(
        None, description="Time between tokens (ITL) in milliseconds, each gap counted."
    )
    tpot_ms: LatencyLimit | None = Field(
        None, description="Time per output token after the first in milliseconds, mean of a request."
    )
    e2e_ms: LatencyLimit | None = Field(None, description="Whole request in milliseconds.")
    completion_rate: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None, description="Smallest part of requests that must complete."
    )

    def limits(self) -> tuple[tuple[str, str, float], ...]:
        """(metric, percentile, limit in ms) of every latency limit."""
        return tuple(
            (metric, percentile, limit)
            for metric in LATENCY_METRICS
            if (given := getattr(self, metric)) is not None
            for percentile, limit in given.given().items()
        )


class Economics(Schema):
    """Your own prices; a price not given here comes from the catalogue and is named among the assumptions."""

    usd_per_gpu_hour: dict[Name, UsdPerHour] = Field(
        default_factory=dict, description="Price of a GPU-hour in US dollars by node or accelerator id."
    )


class Reliability(Schema):
    """Headroom for failures."""

    spare_nodes: Annotated[int, Field(ge=0, le=10_000)] = Field(
        0, description="Nodes beyond what the load needs (N + k)."
    )
    failures: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="Failures at once, of GPUs, nodes or racks, that headroom is worked out for (the k of N + k)."
    )
    gpus_per_rack: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="GPUs that one rack failure takes; absent means what the catalogue knows of the node."
    )
    detection_s: NotNegative | None = Field(
        None, description="Seconds until a failure is noticed; this and the following default to reliability.yaml."
    )
    restart_s: NotNegative | None = Field(
        None, description="Seconds to schedule a worker on other hardware and start its processes."
    )
    weight_read_gb_s: Positive | None = Field(
        None, description="GB/s at which one node reads weights from storage or its cache."
    )
    graph_capture_s: NotNegative | None = Field(None, description="Seconds to capture CUDA graphs.")
    warm_up_s: NotNegative | None = Field(
        None, description="Seconds for the memory profile and kernel tuning at start, graphs left out."
    )
    gpu_failures_per_year: NotNegative | None = Field(
        None, description="Failures a year for each GPU, whatever their cause."
    )


class Search(Schema):
    """What to try."""

    serving: tuple[ServingMode, ...] = Field(
        ("agg",),
        strict=False,
        min_length=1,
        max_length=2,
        description="Serving modes: agg (prefill and decode share workers), disagg (separate pools).",
    )
    concurrency_per_worker: tuple[Count, ...] | None = Field(
        None,
        strict=False,
        min_length=1,
        max_length=10_000,
        description="Concurrency grid of one worker; absent means a grid up to what memory holds.",
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.serving)) != len(self.serving):
            raise ValueError("serving names a mode twice; give each of agg, disagg once")
        return self


class Scenario(Schema):
    """A capacity question: model, hardware, engine, traffic, SLO, objective, prices."""

    schema_version: Literal["planner.scenario/1"] = Field(alias="schema", description="Version of this format.")
    name: Name = Field(description="What to call the scenario.")
    description: Annotated[str, Field(max_length=10_000)] | None = Field(
        None, description="What it is about and where its numbers come from."
    )
    model: Name = Field(
        description="Catalogue id, or path of a model YAML or Hugging Face config.json beside the scenario."
    )
    model_spec: ModelSpec | None = Field(
        None, description="The model's specification written out; filled in where model is a path."
    )
    precision: PrecisionChoice = Field(default_factory=PrecisionChoice, description="Number formats by tensor class.")
    hardware: Hardware = Field(description="Node types and how many.")
    engine: Engine = Field(description="Serving engine, version and options.")
    workload: Workload = Field(description="Lengths, arrivals, prefix hits, priorities.")
    slo: Slo = Field(description="Limits on TTFT, TBT, TPOT, whole requests and completion.")
    objective: Objective = Field("lowest_cost", description="What ranks the feasible candidates.")
    economics: Economics = Field(default_factory=Economics, description="Your own prices.")
    reliability: Reliability = Field(default_factory=Reliability, description="Nodes kept spare for failures.")
    search: Search = Field(default_factory=Search, description="Serving modes and concurrency to try.")

    @model_validator(mode="after")
    def _modes_have_hardware(self) -> Self:
        if "agg" in self.search.serving and not self.hardware.candidates:
            raise ValueError("search.serving: agg needs hardware.candidates; with pools alone serving is [disagg]")
        return self

    @classmethod
    def from_dict(cls, data: Any, folder: Path | None = None) -> Scenario:
        """A scenario from plain data; raises InputError naming the dotted field, what was given and what is
        allowed.
        """
        from planner.scenario.load import scenario_from_data

        return scenario_from_data(data, folder)

    def to_yaml(self) -> str:
        """YAML that :func:`planner.load_scenario` reads back to an equal scenario."""
        from planner.scenario.safe_yaml import dump_yaml

        return dump_yaml(self.to_dict())
