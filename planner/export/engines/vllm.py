"""vLLM: ``vllm serve``. Flags and their meaning: hardware_db/engine_flags/vllm.yaml."""

from __future__ import annotations

from planner.errors import InputError
from planner.export.engines.settings import (
    Point,
    Settings,
    dispatched,
    kv_flag,
    kv_note,
    point,
    present,
    shared_notes,
    speculation,
)
from planner.export.flag_lists import kubernetes
from planner.export.roles import Deployment, Role
from planner.export.words import HEAD, RANK, Arguments, Word

ENGINE = "vllm"
KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
LOW_LATENCY = "deepep_low_latency"
ALL2ALL = {"prefill": "deepep_high_throughput", "serve": "deepep_high_throughput", "decode": LOW_LATENCY}
QP_DEPTH = 1024
"""NVSHMEM's queue depth; DeepEP's low-latency dispatch asks for twice a rank's tokens and 2 (deep_ep/buffer.py)."""


def program(d: Deployment) -> list[Word]:
    """``vllm serve MODEL``."""
    return ["vllm", "serve", d.model_word]


def settings(d: Deployment, role: Role) -> Settings:
    """Flags of a role; experts are placed whole on all TP x DP ranks or sliced over them, nothing between.

    Dense MLPs and head are split over TP inside each data-parallel rank, as the plan assumes, without a flag.
    """
    p, layout = point(d, role), role.layout
    notes = list(shared_notes(d, role, ENGINE))
    sequences, tokens = p.max_num_seqs, p.max_num_batched_tokens
    _whole_prompts(p)
    if sequences is not None and tokens is not None and sequences > tokens:
        notes.append(
            f"vLLM takes no more sequences than tokens of a step: --max-num-seqs is {tokens:,}, not the plan's "
            f"{sequences:,}."
        )
        sequences = tokens
    moe = d.routed_experts > 0
    parallel = moe and layout.ep > 1
    drafts = speculation(p, role, ENGINE)
    all2all = ALL2ALL[role.name] if role.point_to_point and parallel else None
    sent = dispatched(p, role, drafts, ENGINE) if all2all == LOW_LATENCY else None
    if sent is not None and tokens is not None and sent < tokens:
        notes.append(
            f"Low-latency dispatch keeps buffers for --max-num-batched-tokens of every rank: {sent:,}, a decode step "
            f"of the plan's sequences, not the plan's {tokens:,}; a preempted request's prompt is computed in such "
            "pieces."
        )
        tokens = sent
    if parallel and layout.ep != role.ranks:
        notes.append(
            f"vLLM has no setting for experts in {layout.ep} groups of {layout.moe_tp} slices: "
            f"--enable-expert-parallel places whole experts on all {role.ranks} ranks."
        )
    if p.two_batch_overlap and not role.point_to_point:
        notes.append("Two-batch overlap (--enable-dbo) needs a DeepEP all-to-all backend, which this layout has not.")
    if layout.attention_dp > 1 and not moe:
        notes.append("Data parallelism of a dense model is independent instances; a load balancer does the same.")
    note = kv_note(d.kv_format, "vLLM")
    notes += [note] if note else []
    redundant = layout.redundant_experts if parallel else 0
    depth = {} if sent is None or 2 * (sent + 1) <= QP_DEPTH else {"NVSHMEM_QP_DEPTH": str(2 * (sent + 1))}
    arguments = present(
        [
            ("--trust-remote-code", d.spec.remote_code is not None),
            ("--quantization", d.checkpoint.quantization),
            ("--tensor-parallel-size", layout.tp),
            ("--pipeline-parallel-size", layout.pp if layout.pp > 1 else None),
            ("--data-parallel-size", layout.attention_dp if layout.attention_dp > 1 else None),
            ("--enable-expert-parallel", parallel),
            ("--all2all-backend", all2all),
            ("--enable-dbo", p.two_batch_overlap and role.point_to_point),
            ("--enable-eplb", redundant > 0),
            ("--eplb-config.num_redundant_experts", redundant or None),
            ("--max-model-len", p.max_model_len),
            ("--max-num-seqs", sequences),
            ("--max-num-batched-tokens", tokens),
            ("--gpu-memory-utilization", p.gpu_memory_utilization),
            ("--kv-cache-dtype", kv_flag(d.kv_format, "fp8")),
            ("--no-enable-chunked-prefill", p.options.chunked_prefill is False and tokens == p.max_num_batched_tokens),
            ("--enforce-eager", p.options.cuda_graphs is False),
            ("--scheduling-policy", "priority" if d.plan.scenario.workload.priority_classes else None),
            ("--speculative-config.method", None if drafts is None else drafts.method),
            ("--speculative-config.model", None if drafts is None else drafts.draft_model),
            ("--speculative-config.num_speculative_tokens", None if drafts is None else drafts.tokens),
            ("--kv-transfer-config.kv_connector", "NixlConnector" if d.disaggregated else None),
            ("--kv-transfer-config.kv_role", KV_ROLES.get(role.name)),
        ]
    )
    return Settings(arguments, tuple(notes), environment=depth)


def _whole_prompts(p: Point) -> None:
    """Without chunked prefill a step must hold the longest request (vllm/config/scheduler.py verify_max_model_len)."""
    tokens, longest = p.max_num_batched_tokens, p.max_model_len
    if p.options.chunked_prefill is False and tokens is not None and longest is not None and tokens < longest:
        raise InputError(
            "engine.options.chunked_prefill",
            False,
            f"true for vLLM with {tokens:,} tokens in a step: with unsplit prompts it starts only where "
            f"engine.options.max_num_batched_tokens is at least the longest request, {longest:,}; plan again with it",
        )


def across_hosts(d: Deployment, role: Role, first: bool) -> Arguments:
    """Flags of one host of a worker that spans several; every host but the first runs without an API server."""
    port = kubernetes()["ports"]["vllm_master"]
    arguments = present(
        [("--nnodes", role.pods), ("--node-rank", RANK), ("--master-addr", HEAD), ("--master-port", port)]
    )
    return arguments if first else [*arguments, ("--headless", None)]


def listen(port: Word) -> Arguments:
    """Address and port of the API server."""
    return [("--host", "0.0.0.0"), ("--port", port)]


def front(d: Deployment) -> tuple[str, ...]:
    """What stands in front of the workers, as comments: vLLM has no router of its own."""
    if d.disaggregated:
        return (
            "vLLM has no prefill/decode router of its own: put llm-d or Dynamo in front (export --format llm-d or "
            "dynamo), which send a request to a prefill worker and its KV cache on to a decode worker.",
        )
    workers = d.roles[0].workers
    return (f"A load balancer spreads requests over the {workers} workers.",) if workers > 1 else ()
