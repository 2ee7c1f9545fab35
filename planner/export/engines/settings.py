"""What every engine's translation shares: the operating point of a role, and the comments that are owed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from planner.errors import InputError
from planner.export.flag_lists import TITLES, flag_list
from planner.export.roles import Deployment, Role
from planner.export.vendors import vendor_notes
from planner.export.words import Arguments, Word
from planner.layout.engine_rules import engine_rules
from planner.memory.coefficients import engine_memory
from planner.memory.workspace import dispatch_sequences, dispatch_tokens
from planner.scenario.engine_schema import EngineOptions, Speculation

FP8_KV = ("fp8_tensor", "fp8_channel", "fp8_block", "fp8")
HIGH_KV = ("bf16", "fp16", "fp32")


@dataclass(frozen=True)
class Settings:
    """A role in an engine's own words."""

    arguments: Arguments
    """Flags that are the same on every host of the worker."""
    notes: tuple[str, ...] = ()
    """What the engine has no setting for, or means differently: comments of the export."""
    config: dict[str, Any] = field(default_factory=dict)
    """TensorRT-LLM: the LlmArgs of the YAML file."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the engine reads instead of flags."""


@dataclass(frozen=True)
class Point:
    """The operating point that a role's numbers assume; None is left to the engine."""

    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    max_model_len: int | None
    gpu_memory_utilization: float | None
    two_batch_overlap: bool
    options: EngineOptions


def point(d: Deployment, role: Role) -> Point:
    """Settings of a role: those of its pool, or of the candidate where workers are alike."""
    options = d.plan.scenario.engine.options
    pool = {"prefill": d.candidate.prefill_pool, "decode": d.candidate.decode_pool}.get(role.name)
    s = d.candidate.settings if pool is None else pool.settings
    return Point(
        s.max_num_seqs,
        s.max_num_batched_tokens,
        s.max_model_len,
        s.gpu_memory_utilization,
        s.two_batch_overlap is True,
        options,
    )


def speculation(p: Point, role: Role, engine: str) -> Speculation | None:
    """Drafting of a role. Raises InputError for one that the engine has not over the role's pipeline stages.

    Prefill workers make no drafts and are started with them all the same: the drafting block's own cache of the prompt,
    and what its first draft starts from, come from them. vLLM's connector refuses a pool started otherwise
    (vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py _get_speculative_compatibility_factors, 0.33.0);
    SGLang's would begin every request without (sglang/srt/disaggregation/utils.py MetadataBuffers.set_buf, 0.5.23).
    """
    drafts = p.options.speculation
    if drafts is None or role.layout.pp == 1:
        return drafts
    if not engine_rules(engine).pipeline_speculation.allows(drafts.method, role.name):
        raise InputError(
            "engine.options.speculation",
            drafts.method,
            f"none for {TITLES[engine]} in {role.layout.pp} pipeline stages ({role.name}); plan again without either",
        )
    return drafts


def dispatched(p: Point, role: Role, drafts: Speculation | None, engine: str) -> int | None:
    """Tokens of a rank's decode step that DeepEP's low-latency buffers must hold; None where the plan leaves the
    sequences to the engine. Raises InputError for more than they can be sized for.
    """
    if p.max_num_seqs is None:
        return None
    memory, queries = engine_memory(engine), 1 if drafts is None else drafts.tokens + 1
    tokens = int(dispatch_tokens(memory, sequences=p.max_num_seqs, queries=queries, tp=role.layout.tp))
    most = memory.deepep_most_tokens_per_rank
    if most is not None and tokens > most:
        held = int(dispatch_sequences(memory, queries=queries, tp=role.layout.tp))
        raise InputError(
            "engine.options.max_num_seqs",
            p.max_num_seqs,
            f"at most {held:,} for {TITLES[engine]} in {role.name} workers across scale-up domains, whose low-latency "
            f"dispatch holds {most:,} tokens of a rank, each draft counted; plan again with it",
        )
    return tokens


def shared_notes(d: Deployment, role: Role, engine: str) -> Iterator[str]:
    """Comments that hold for every engine: version, vendor, precision, what the plan leaves to the engine.

    Raises InputError for an engine that does not run on the role's accelerators.
    """
    yield from vendor_notes(role, engine)
    title, version = TITLES[engine], flag_list(engine).version
    planned = d.plan.scenario.engine
    if planned.name != engine:
        yield f"The plan's numbers are for {TITLES[planned.name]}; they do not carry over to {title} as they stand."
    elif planned.version is not None and planned.version != version:
        yield f"The scenario names {title} {planned.version}; the flags here are those of {version}."
    if d.spec.remote_code is not None:
        parts = ", ".join(d.spec.remote_code.parts)
        yield f"The checkpoint brings code of its own ({parts}) and loads only where that may run: read it first."
    yield from d.checkpoint.notes
    drafts = d.plan.scenario.engine.options.speculation
    if drafts is not None and drafts.method == "eagle3" and drafts.draft_model is None:
        yield "The scenario names no draft_model: add the checkpoint of the EAGLE-3 head."
    options = planned.options
    if options.prefix_cache_share:
        yield (
            f"{title} has no setting that keeps part of its KV memory for cached prefixes: the plan's "
            f"prefix_cache_share of {100 * options.prefix_cache_share:.0f} % is left to its eviction."
        )
    if d.disaggregated and options.kv_transfer_overlap and engine != "trtllm":
        yield (
            f"{title} has no setting that sends a layer's KV while later layers are computed, as the plan assumes: "
            "expect the transfer after the prompt."
        )
    if d.candidate.admission is not None and not d.disaggregated:
        a = d.candidate.admission
        yield f"Admission in the plan: a worker runs up to {a.max_sequences:,} requests, {a.max_waiting:,} may wait."
    if role.pods > 1 and role.gpus_per_pod < role.gpus_per_host:
        yield (
            f"{role.gpus} GPUs of a worker lie evenly on {role.pods} hosts: it uses {role.gpus_per_pod} of the "
            f"{role.gpus_per_host} GPUs of each."
        )


def kv_flag(fmt: str, fp8: str) -> str | None:
    """The engine's KV type for the plan's format; None where the engine's automatic choice is meant."""
    return fp8 if fmt in FP8_KV else None


def kv_note(fmt: str, title: str) -> str | None:
    """The comment owed where the plan's KV format is neither 16 bit nor FP8."""
    if fmt in (*FP8_KV, *HIGH_KV):
        return None
    return f"KV cache in {fmt}: {title}'s KV type for it depends on the attention backend; set it by hand."


def present(pairs: list[tuple[str, Word | bool | None]]) -> Arguments:
    """Drops flags whose value is None or False; True becomes a switch."""
    out: Arguments = []
    for flag, value in pairs:
        if value is None or value is False:
            continue
        out.append((flag, None if value is True else value))
    return out
