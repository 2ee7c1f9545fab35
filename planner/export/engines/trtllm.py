"""TensorRT-LLM: ``trtllm-serve`` with its YAML of LlmArgs. Keys: hardware_db/engine_flags/trtllm.yaml."""

from __future__ import annotations

from typing import Any

from planner.export.engines.settings import Settings, kv_flag, kv_note, point, shared_notes, speculation
from planner.export.flag_lists import kubernetes
from planner.export.roles import Deployment, Role
from planner.export.vendors import vendors
from planner.export.words import Arguments, Word
from planner.memory.coefficients import engine_memory
from planner.memory.workspace import largest_graph

ENGINE = "trtllm"


DRAFTING = {"mtp": "MTP", "eagle3": "Eagle3"}


def program(d: Deployment) -> list[Word]:
    """``trtllm-serve MODEL``."""
    return ["trtllm-serve", d.model_word]


def config_name(role: Role) -> str:
    """File name of a role's YAML."""
    return f"{role.name}.yaml"


def settings(d: Deployment, role: Role) -> Settings:
    """LlmArgs of a role; under attention DP batch size and token budget are per rank, as in the plan.

    Dense MLPs, shared experts and head are then whole on every rank, as the plan assumes, without a setting
    (tensorrt_llm/_torch/models/modeling_deepseekv3.py _compute_mlp_tp_size; enable_lm_head_tp_in_adp is off).
    """
    p, layout = point(d, role), role.layout
    notes = list(shared_notes(d, role, ENGINE))
    moe = d.routed_experts > 0
    config: dict[str, Any] = {"tensor_parallel_size": role.ranks, "pipeline_parallel_size": layout.pp}
    if moe:
        config |= {"moe_expert_parallel_size": layout.ep, "moe_tensor_parallel_size": layout.moe_tp}
    if d.spec.remote_code is not None:
        config["trust_remote_code"] = True
    if layout.attention_dp > 1:
        config["enable_attention_dp"] = True
        if layout.tp > 1:
            notes.append(
                f"TensorRT-LLM has no setting for attention TP{layout.tp} inside attention DP{layout.attention_dp}: "
                f"enable_attention_dp runs attention on every one of the {role.ranks} ranks by itself."
            )
    if role.pods > 1:
        config["gpus_per_node"] = role.gpus_per_pod
    for key, value in (
        ("max_batch_size", p.max_num_seqs),
        ("max_num_tokens", p.max_num_batched_tokens),
        ("max_seq_len", p.max_model_len),
    ):
        if value is not None:
            config[key] = value
    config["enable_chunked_prefill"] = p.options.chunked_prefill is not False
    cache: dict[str, Any] = {}
    if p.gpu_memory_utilization is not None:
        notes.append(
            "free_gpu_memory_fraction is the share of memory left after weights and activations; the scenario's "
            "gpu_memory_utilization is taken to mean it."
        )
        cache["free_gpu_memory_fraction"] = p.gpu_memory_utilization
    kv = kv_flag(d.kv_format, "fp8")
    if kv is not None:
        cache["dtype"] = kv
    note = kv_note(d.kv_format, "TensorRT-LLM")
    notes += [note] if note else []
    if cache:
        config["kv_cache_config"] = cache
    if p.options.cuda_graphs is False:
        config["cuda_graph_config"] = None
    elif p.max_num_seqs is not None:
        # By itself it captures no batch beyond 128 and replays a graph for captured sizes only.
        largest = int(largest_graph(p.max_num_seqs, engine_memory(ENGINE), planned=True))
        config["cuda_graph_config"] = {"max_batch_size": largest, "enable_padding": True}
    if moe and layout.redundant_experts and layout.ep > 1:
        slots = d.routed_experts + layout.redundant_experts
        config["moe_config"] = {"load_balancer": {"num_slots": slots}}
    drafts = speculation(p, role, ENGINE)
    if drafts is not None:
        config["speculative_config"] = {"decoding_type": DRAFTING[drafts.method], "max_draft_len": drafts.tokens}
        if drafts.draft_model is not None:
            config["speculative_config"]["speculative_model"] = drafts.draft_model
    if d.plan.scenario.workload.priority_classes:
        notes.append("TensorRT-LLM has no setting for priority classes in its kept list: requests start as they come.")
    tokens, longest = p.max_num_batched_tokens, p.max_model_len
    if p.options.chunked_prefill is False and tokens is not None and longest is not None and tokens < longest:
        notes.append(f"Without chunked prefill prompts of more than max_num_tokens, {tokens:,}, are turned away.")
    if p.two_batch_overlap:
        notes.append("TensorRT-LLM has no setting for two-batch overlap in its kept list.")
    if role.point_to_point:
        notes.append("TensorRT-LLM chooses its own all-to-all kernels; the plan's times assume DeepEP kernels.")
    if d.disaggregated:
        config["cache_transceiver_config"] = {"backend": "DEFAULT"}
        if p.max_model_len is not None:
            config["cache_transceiver_config"]["max_tokens_in_buffer"] = p.max_model_len
        config["disable_overlap_scheduler"] = role.name == "prefill"
        if p.options.kv_transfer_overlap:
            # Only NIXL's transceiver sends chunk by chunk, and only of split prompts (kv_cache_transceiver.py).
            config["cache_transceiver_config"] |= {"backend": "NIXL", "enable_pipelined_transfer": True}
    return Settings([("--config", config_name(role))], tuple(notes), config)


def across_hosts(d: Deployment, role: Role, first: bool) -> Arguments:
    """Nothing: MPI starts the ranks."""
    return []


def mpi(role: Role) -> list[Word]:
    """The launcher of a worker that spans hosts: one rank a GPU, hosts in a file."""
    return ["mpirun", "-n", role.gpus, "--hostfile", "hosts", "trtllm-llmapi-launch"]


def listen(port: Word) -> Arguments:
    """Address and port of the server."""
    return [("--host", "0.0.0.0"), ("--port", port)]


def front(d: Deployment) -> tuple[str, ...]:
    """What stands in front of the workers, as comments."""
    workers = d.roles[0].workers
    if d.disaggregated or workers == 1:
        return ()
    return (f"A load balancer spreads requests over the {workers} workers.",)


def front_config(d: Deployment, port: int) -> dict[str, Any]:
    """Configuration of ``trtllm-serve disaggregated`` on ``port``, with a name for the first host of every worker."""
    http, step = kubernetes()["ports"]["http"], vendors()["shared_host"]["port_step"]
    names = {"prefill": "context_servers", "decode": "generation_servers"}
    servers = {
        names[role.name]: {
            "num_instances": role.workers,
            "urls": [f"{host}:{http + step * place}" for host, place in map(role.address, range(role.workers))],
        }
        for role in d.roles
    }
    return {"hostname": "0.0.0.0", "port": port, "backend": "pytorch", **servers}
