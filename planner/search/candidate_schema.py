"""A candidate of a plan and what it consists of: layout, times, memory, cost, breakdown, evidence."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.scenario.base import Schema
from planner.search.sizing_schema import Sizing

Phase = Literal["prefill", "decode", "mixed"]
Bound = Literal["compute", "memory", "network", "latency", "host"]


class Layout(Schema):
    """Parallel layout of one worker: gpus = tp * pp * attention_dp = moe_tp * ep * pp."""

    tp: Annotated[int, Field(ge=1)] = Field(1, description="Tensor-parallel ranks of the attention part.")
    pp: Annotated[int, Field(ge=1)] = Field(1, description="Pipeline stages.")
    attention_dp: Annotated[int, Field(ge=1)] = Field(1, description="Attention data-parallel ranks.")
    moe_tp: Annotated[int, Field(ge=1)] = Field(1, description="Tensor-parallel ranks inside one expert.")
    ep: Annotated[int, Field(ge=1)] = Field(1, description="Expert-parallel ranks.")
    redundant_experts: Annotated[int, Field(ge=0)] = Field(0, description="Replicas of hot experts.")

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        return self.tp * self.pp * self.attention_dp

    def describe(self) -> str:
        """Shorthand such as ``TP1 DP32 EP32+32``."""
        from planner.layout.layouts import Layouts

        return Layouts.of(**self.model_dump()).describe(0)


class Percentiles(Schema):
    """A latency in milliseconds; null is not computed yet (the plan's assumptions say what a limit was judged
    on).
    """

    mean: float | None = Field(None, description="Mean in milliseconds.")
    p50: float | None = Field(None, description="Median in milliseconds.")
    p90: float | None = Field(None, description="90th percentile in milliseconds.")
    p95: float | None = Field(None, description="95th percentile in milliseconds.")
    p99: float | None = Field(None, description="99th percentile in milliseconds.")


class Interval(Schema):
    """Where the measured value is expected: 80 % and 50 % of the time inside, in the metric's own unit."""

    low80: float = Field(description="Lower end of the 80 % interval.")
    high80: float = Field(description="Upper end of the 80 % interval.")
    low50: float | None = Field(None, description="Lower end of the 50 % interval.")
    high50: float | None = Field(None, description="Upper end of the 50 % interval.")


class MemoryGib(Schema):
    """Memory of the fullest rank, term by term, in GiB."""

    weights: float = Field(description="Weights in GiB.")
    kv: float = Field(description="KV cache available to sequences in GiB.")
    workspace: float = Field(description="Activation and sampler peak in GiB.")
    collectives: float = Field(description="Collective buffers in GiB.")
    graphs: float = Field(description="CUDA graphs in GiB.")
    runtime: float = Field(description="Runtime context in GiB.")
    margin: float = Field(description="Safety margin in GiB.")
    total: float = Field(description="Sum of the terms in GiB.")
    capacity: float = Field(description="Usable memory of the GPU in GiB.")


class UsdPerMtok(Schema):
    """Cost in US dollars per million tokens; null where a price is not known."""

    input: float | None = Field(
        None, description="Prefill's share of the cost per million input tokens in USD, cached ones included."
    )
    uncached_input: float | None = Field(
        None,
        description="The same cost per million input tokens in USD that no cache holds.",
    )
    cached_input: float | None = Field(
        None,
        description="Per million cached input tokens in USD: 0, as prefill's cost lies on the others; null where none "
        "is cached.",
    )
    output: float | None = Field(
        None, description="The whole cost per million output tokens in USD; plans are ranked by it."
    )


class Term(Schema):
    """One operator of a step on the critical path: what shows and what is hidden behind other work."""

    phase: Phase = Field(description="Step that the term belongs to.")
    term: str = Field(description="Operator, such as attention, routed_experts or dispatch.")
    exposed_ms: float = Field(description="Time on the critical path in milliseconds.")
    hidden_ms: float = Field(0.0, description="Time overlapped by other work in milliseconds.")
    share: float = Field(description="Part of the step's exposed time, 0 to 1.")
    bound: Bound | None = Field(None, description="What limits the operator.")


class Breakdown(Schema):
    """Where the time of a step goes, by phase."""

    step_ms: dict[Phase, float] = Field(default_factory=dict, description="Step time by phase in ms.")
    terms: tuple[Term, ...] = Field((), strict=False, description="Terms of every phase.")

    def phase(self, phase: Phase) -> tuple[Term, ...]:
        """The terms of one phase, largest exposed time first."""
        chosen = [t for t in self.terms if t.phase == phase]
        return tuple(sorted(chosen, key=lambda t: -t.exposed_ms))


class Mark(Schema):
    """A number that stands on weaker ground than the rest, and why."""

    subject: str = Field(description="What is marked, such as tpot_ms or the operator curve gemm/fp8.")
    text: str = Field(description="Why, in one sentence.")


class Evidence(Schema):
    """How near measured runs are to this candidate."""

    extrapolated: bool = Field(False, description="Whether anything lies outside the measured range.")
    distance: str | None = Field(None, description="Nearest kind of evidence, such as a seen layout.")
    cautions: tuple[str, ...] = Field(
        (),
        strict=False,
        description="What the end-to-end check found for accelerators whose measured runs mostly miss the interval.",
    )
    marks: tuple[Mark, ...] = Field((), strict=False, description="What is extrapolated, and from what.")


class SloCheck(Schema):
    """One limit of the SLO against the predicted value."""

    metric: str = Field(description="Metric, such as ttft_ms.")
    percentile: str = Field(description="Percentile that the limit names.")
    limit: float = Field(description="The limit, in the metric's unit.")
    value: float | None = Field(
        description="The predicted value that was compared; null where the load is more than the workers pass."
    )
    judged_on: str = Field(description="Which figure was compared: the percentile, or mean until then.")
    met: bool = Field(description="Whether the expected value meets the limit.")
    met_at_80: bool | None = Field(None, description="Whether the upper end of the 80 % interval meets it.")


class OperatingPoint(Schema):
    """Engine settings that the numbers assume."""

    max_num_seqs: int | None = Field(None, description="Sequences in one step of one attention replica.")
    max_num_batched_tokens: int | None = Field(None, description="Token budget of a step.")
    prefill_chunk_tokens: int | None = Field(None, description="Prefill chunk in tokens.")
    gpu_memory_utilization: float | None = Field(None, description="Part of GPU memory in use.")
    max_model_len: int | None = Field(None, description="Largest context in tokens.")
    two_batch_overlap: bool | None = Field(None, description="Two micro-batches overlapped.")
    draft_tokens: int | None = Field(None, description="Draft tokens of each sequence that a decode step checks.")


class Pool(Schema):
    """The prefill or the decode pool of a disaggregated deployment; counts are for the whole deployment."""

    node: str = Field(description="Node type.")
    layout: Layout = Field(description="Layout of one worker.")
    workers: int = Field(description="Workers in the pool.")
    gpus: int = Field(description="GPUs in the pool.")
    nodes: int | None = Field(None, description="Nodes in the pool.")
    concurrency_per_worker: float | None = Field(None, description="Requests in flight in one worker.")
    utilisation: float | None = Field(None, description="Part of the pool's capacity in use, 0 to 1.")
    tokens_per_s_per_gpu: float | None = Field(
        None,
        description="Prompt tokens without cached ones, or output tokens, per second and GPU.",
    )
    memory_gib: MemoryGib | None = Field(None, description="Memory of the fullest rank in GiB.")
    settings: OperatingPoint = Field(
        default_factory=OperatingPoint, description="Engine settings of the pool's workers."
    )


class PrefixCache(Schema):
    """Prefix caches of the workers that process prompts, one for each attention-DP rank."""

    routing: Literal["least_loaded", "affinity"] = Field(description="How requests are sent to workers.")
    hit_rate: float = Field(description="Part of prompt tokens that caches hold, 0 to 1.")
    request_hit_rate: float = Field(description="Part of requests whose prefix is held, 0 to 1.")
    tokens_per_rank: float = Field(description="Cache tokens that running requests leave on a rank.")
    used_gib_per_rank: float = Field(description="Memory of the prefixes held on a rank in GiB.")
    imbalance: float = Field(description="Prompt work of the busiest worker over the mean.")
    least_loaded_hit_rate: float = Field(description="Hit rate with requests to the least loaded worker.")
    affinity_hit_rate: float = Field(description="Hit rate with requests to the worker that knows the prefix.")
    affinity_imbalance: float = Field(description="Imbalance that goes with it.")


class KvTransfer(Schema):
    """Moving the KV cache of a prompt of mean length from the prefill to the decode pool."""

    mib: float = Field(description="Size of the cache in MiB, counted once.")
    copies: float = Field(
        1.0, description="Times that it crosses the links: decode ranks that hold the same (MLA over TP) each take it."
    )
    link: Literal["scale_up", "network"] = Field(description="Fabric tier that carries it.")
    overlapped: bool = Field(description="Whether layers are sent while later ones are computed.")
    whole_ms: float = Field(description="The transfer itself in ms, the slower end's.")
    wait_ms: float = Field(description="Mean wait for the links behind other prompts in ms.")
    exposed_ms: float = Field(description="Part of TTFT in ms, the wait included.")
    send_utilisation: float = Field(description="Part of the time that a sending GPU's link is busy, 0 to 1.")
    receive_utilisation: float = Field(description="The same of a receiving GPU.")


class TierTraffic(Schema):
    """Bytes that one GPU sends in one step over one fabric tier."""

    tier: str = Field(description="Fabric tier, such as scale_up or network.")
    phase: Phase = Field(description="Step that sends them.")
    mib_per_step: float = Field(description="MiB sent by the busiest GPU in a step.")


class AdmissionPolicy(Schema):
    """When one worker admits, queues or rejects a request (planner.serving.admission)."""

    max_sequences: int = Field(description="Requests that run at once in a worker.")
    max_context_tokens: int = Field(description="Prompt plus output of one request in tokens.")
    max_waiting: int = Field(description="Requests that may wait at a worker; one more is rejected.")
    reserve: Literal["prompt", "expected", "maximum"] = Field(
        description="Output that a request holds KV blocks for when it starts."
    )
    watermark: float = Field(description="Part of all blocks kept free for the growth of what runs.")
    held_back: dict[Annotated[int, Field(strict=False)], float] = Field(
        default_factory=dict, description="Part of all blocks that a priority leaves to more urgent requests."
    )


class PriorityLatency(Schema):
    """A priority class under the same load: non-preemptive, more urgent prompts first."""

    name: str = Field(description="Name of the class.")
    priority: int = Field(description="Its rank: a lower number is served first.")
    share: float = Field(description="Part of all requests.")
    wait_ms: Percentiles = Field(description="Arrival to the first step that carries the prompt, in ms.")
    ttft_ms: Percentiles = Field(description="Time to first token in ms.")


class Candidate(Schema):
    """One feasible deployment at one operating point."""

    rank: int = Field(description="1 is best by the objective.")
    layout: Layout = Field(description="Layout of one worker (disagg: of a decode worker).")
    serving: Literal["agg", "disagg"] = Field(description="Serving mode.")
    gpus: int = Field(description="GPUs of the whole deployment, spares left out.")
    gpus_paid: int | None = Field(
        None, description="GPUs of all nodes, spares included: whole nodes are paid for, whatever workers use of them."
    )
    replicas: int = Field(description="Workers that serve the load (disagg: decode workers).")
    node: str = Field(description="Node type (disagg: of the decode pool).")
    accelerator: str | None = Field(None, description="Accelerator id.")
    nodes: int | None = Field(None, description="Nodes of the whole deployment, spares included.")
    shared_nodes: int | None = Field(
        None, description="disagg: nodes with workers of both pools; null where each pool has nodes of its own."
    )
    prefill_pool: Pool | None = Field(None, description="disagg: the prefill pool.")
    decode_pool: Pool | None = Field(None, description="disagg: the decode pool.")
    ttft_ms: Percentiles = Field(description="Time to first token in ms.")
    tbt_ms: Percentiles = Field(description="Time between tokens in ms.")
    tpot_ms: Percentiles = Field(description="Time per output token after the first in ms.")
    e2e_ms: Percentiles = Field(default_factory=Percentiles, description="Whole request in ms.")
    wait_ms: Percentiles = Field(
        default_factory=Percentiles, description="Arrival to the first step that carries the prompt, in ms."
    )
    prefix_cache: PrefixCache | None = Field(
        None, description="Prefix caches, of the best candidate where the scenario names shared prefixes."
    )
    kv_transfer_ms: float | None = Field(None, description="disagg: exposed KV transfer of a request in ms.")
    kv_transfer: KvTransfer | None = Field(None, description="disagg: bytes, links and contention of that transfer.")
    goodput_rps: float = Field(description="Requests per second that meet every limit, whole deployment.")
    throughput_rps: float | None = Field(None, description="Requests per second, whole deployment.")
    rejection_probability: float | None = Field(
        None,
        description="Part of requests that find every KV slot taken: refused or made to wait, by the admission policy.",
    )
    completion_rate: float | None = Field(
        None, description="Part of requests served where those without a KV slot are refused, 0 to 1."
    )
    output_tokens_per_s_per_gpu: float = Field(description="Output tokens per second and GPU in use.")
    input_tokens_per_s_per_gpu: float | None = Field(None, description="Input tokens per second and GPU.")
    output_tokens_per_s_per_user: float | None = Field(None, description="Output tokens per second of one request.")
    concurrency: float = Field(
        description="Requests in flight over the whole deployment: on average, from their first step to their last "
        "token (disagg: in the decode workers; closed loop, agg: all that it keeps in flight)."
    )
    concurrency_per_worker: float | None = Field(None, description="Requests in flight in one worker.")
    max_concurrency: float | None = Field(
        None,
        description="Requests of mean length that memory would hold, whole deployment (disagg: of the decode workers); "
        "the engines are set to run fewer at once (settings, admission).",
    )
    admission: AdmissionPolicy | None = Field(None, description="Admission policy that goes with the numbers.")
    priorities: tuple[PriorityLatency, ...] = Field(
        (), strict=False, description="Latencies by priority class, most urgent first."
    )
    sizing: Sizing | None = Field(None, description="Day, failures and recovery; of the first candidate only.")
    settings: OperatingPoint = Field(
        default_factory=OperatingPoint, description="Engine settings assumed (disagg: of the decode pool)."
    )
    memory_gib: MemoryGib = Field(description="Memory of the fullest rank in GiB.")
    usd_per_hour: float | None = Field(None, description="Price of the whole deployment in USD per hour.")
    usd_per_mtok: UsdPerMtok = Field(default_factory=UsdPerMtok, description="USD per million tokens.")
    joules_per_token: float | None = Field(None, description="Energy per output token in joules.")
    interval: dict[str, Interval] = Field(default_factory=dict, description="Interval by metric.")
    slo: tuple[SloCheck, ...] = Field((), strict=False, description="Every limit and how it stands.")
    binding: str = Field(description="What binds, in one sentence.")
    explanation: tuple[str, ...] = Field((), strict=False, description="Why not better, sentence by sentence.")
    breakdown: Breakdown = Field(default_factory=Breakdown, description="Where a step's time goes.")
    traffic: tuple[TierTraffic, ...] = Field((), strict=False, description="Bytes per fabric tier.")
    evidence: Evidence = Field(default_factory=Evidence, description="How near measured runs are.")
