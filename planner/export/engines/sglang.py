"""SGLang: ``python -m sglang.launch_server``. Flags and their meaning: hardware_db/engine_flags/sglang.yaml."""

from __future__ import annotations

from planner.export.engines.settings import (
    Settings,
    dispatched,
    kv_flag,
    kv_note,
    point,
    present,
    shared_notes,
    speculation,
)
from planner.export.flag_lists import flag_list, kubernetes
from planner.export.roles import Deployment, Role
from planner.export.vendors import vendors
from planner.export.weights import has_dense_layers
from planner.export.words import HEAD, RANK, Arguments, Var, Word
from planner.memory.coefficients import engine_memory

ENGINE = "sglang"
ALGORITHM = {"mtp": "EAGLE", "eagle3": "EAGLE3"}
"""SGLang drafts with a model's multi-token-prediction block as with an EAGLE head."""
DISPATCH_TOKENS = "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
"""Tokens of a rank that low-latency dispatch has room for (sglang/srt/environ.py); a step of more ends the server."""
DEEPEP_MODE = {"prefill": "normal", "serve": "auto", "decode": "low_latency"}


def program(d: Deployment) -> list[Word]:
    """``python -m sglang.launch_server``; the model is a flag."""
    return ["python", "-m", "sglang.launch_server"]


def settings(d: Deployment, role: Role) -> Settings:
    """Flags of a role.

    ``--tp-size`` counts all ranks of a stage and attention DP divides them; chunk and running requests are given for
    all of attention DP, which the server divides by its size. Under attention DP the server would split dense MLPs and
    head over all ranks and gather every rank's tokens for them; the plan's memory and times have dense MLPs whole and
    the head inside a replica, as --moe-dense-tp-size 1 and --enable-dp-lm-head do (sglang/srt/layers/communicator.py
    enable_moe_dense_fully_dp; sglang/srt/server_args.py takes no other size than 1 and all ranks).
    """
    p, layout = point(d, role), role.layout
    notes = list(shared_notes(d, role, ENGINE))
    moe = d.routed_experts > 0
    dp = layout.attention_dp
    if p.two_batch_overlap and not role.point_to_point:
        notes.append("Two-batch overlap needs an all-to-all backend (--moe-a2a-backend), which this layout has not.")
    unsplit, tokens = p.options.chunked_prefill is False, p.max_num_batched_tokens
    chunk = -1 if unsplit else None if tokens is None else tokens * dp
    # It bounds a step beside the chunk; attention DP does not divide it (srt/managers/schedule_policy.py PrefillAdder).
    usual = int(flag_list(ENGINE).flags["--max-prefill-tokens"].default)
    most = tokens if tokens is not None and (unsplit or tokens > usual) else None
    urgent = bool(d.plan.scenario.workload.priority_classes)
    note = kv_note(d.kv_format, "SGLang")
    notes += [note] if note else []
    if p.gpu_memory_utilization is not None:
        notes.append(
            "gpu_memory_utilization of the scenario is SGLang's share for weights and KV (mem-fraction-static)."
        )
    local = moe and dp > 1
    dense = local and has_dense_layers(d.spec)
    direct = moe and role.point_to_point
    drafts = speculation(p, role, ENGINE)
    redundant = layout.redundant_experts if moe and layout.ep > 1 else 0
    arguments = present(
        [
            ("--model-path", d.model_word),
            ("--trust-remote-code", d.spec.remote_code is not None),
            ("--quantization", d.checkpoint.quantization),
            ("--tp-size", role.ranks),
            ("--pp-size", layout.pp if layout.pp > 1 else None),
            ("--attn-dp-size", dp if dp > 1 else None),
            ("--moe-dense-tp-size", 1 if dense else None),
            ("--enable-dp-lm-head", local),
            ("--ep-size", layout.ep if moe and layout.ep > 1 else None),
            ("--moe-a2a-backend", "deepep" if direct else None),
            ("--deepep-mode", DEEPEP_MODE[role.name] if direct else None),
            ("--enable-two-batch-overlap", p.two_batch_overlap and direct),
            ("--enable-eplb", redundant > 0),
            ("--ep-num-redundant-experts", redundant or None),
            ("--context-length", p.max_model_len),
            ("--max-running-requests", None if p.max_num_seqs is None else p.max_num_seqs * dp),
            ("--chunked-prefill-size", chunk),
            ("--max-prefill-tokens", most),
            ("--enable-priority-scheduling", urgent),
            ("--schedule-low-priority-values-first", urgent),
            ("--disable-priority-preemption", urgent),
            ("--mem-fraction-static", p.gpu_memory_utilization),
            ("--kv-cache-dtype", kv_flag(d.kv_format, "fp8_e4m3")),
            ("--speculative-algorithm", ALGORITHM[drafts.method] if drafts else None),
            ("--speculative-draft-model-path", drafts.draft_model if drafts else None),
            ("--speculative-num-steps", drafts.tokens if drafts else None),
            ("--speculative-eagle-topk", 1 if drafts else None),
            ("--speculative-num-draft-tokens", drafts.tokens + 1 if drafts else None),
            ("--disable-decode-cuda-graph", p.options.cuda_graphs is False),
            ("--disaggregation-mode", role.name if d.disaggregated else None),
        ]
    )
    sent = dispatched(p, role, drafts, ENGINE) if direct and role.name != "prefill" else None
    room = engine_memory(ENGINE).deepep_tokens_per_rank
    environment = {DISPATCH_TOKENS: str(sent)} if sent is not None and sent > room else {}
    return Settings(arguments, tuple(notes), environment=environment)


def across_hosts(d: Deployment, role: Role, first: bool) -> Arguments:
    """Flags of one host of a worker that spans several; all hosts are started alike."""
    port = kubernetes()["ports"]["sglang_dist_init"]
    address = Var(HEAD.shell, HEAD.pod, f":{port}")
    return present([("--nnodes", role.pods), ("--node-rank", RANK), ("--dist-init-addr", address)])


def listen(port: Word) -> Arguments:
    """Address and port of the HTTP server."""
    return [("--host", "0.0.0.0"), ("--port", port)]


def front(d: Deployment) -> tuple[str, ...]:
    """What stands in front of the workers, as comments."""
    workers = d.roles[0].workers
    if d.disaggregated or workers == 1:
        return ()
    return (f"A load balancer spreads requests over the {workers} workers.",)


def router(d: Deployment, port: int) -> tuple[list[Word], Arguments]:
    """The router of a disaggregated deployment on ``port``, with a host name for the first host of every worker."""
    http, bootstrap = kubernetes()["ports"]["http"], kubernetes()["ports"]["sglang_bootstrap"]
    arguments: Arguments = [("--pd-disaggregation", None), *listen(port)]
    for role in d.roles:
        for i in range(role.workers):
            host, place = role.address(i)
            beside = place * vendors()["shared_host"]["port_step"]
            url = f"http://{host}:{http + beside}"
            arguments.append(("--prefill", (url, bootstrap + beside)) if role.name == "prefill" else ("--decode", url))
    return ["python", "-m", "sglang_router.launch_router"], arguments
