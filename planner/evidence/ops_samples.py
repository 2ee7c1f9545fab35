"""From operator tables to samples: which rows belong to which curve, and the arguments of its formula.

Row selection, by class: an engine's main kernel for the data type is the one with the most rows; rows of other kernels
(fallbacks for odd shapes) are left out and counted in ``excluded``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.evidence.ops_routing import hottest_rank
from planner.evidence.ops_tables import Table, read_table
from planner.units import MICROSECOND, MILLISECOND

Array = NDArray[np.float64]

GEMM_TYPES = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4",
    "int8_wo": "int8_wo", "int4_wo": "int4_wo", "sq": "int8",
}  # fmt: skip
MOE_TYPES = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4",
    "int4_wo": "int4_wo", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}  # fmt: skip
CACHE_TYPES = {"bfloat16": "bf16", "fp8": "fp8"}
MIN_ROWS = 40
STAND_IN_KERNELS = ("triton",)
ARTEFACT_ENGINE, ARTEFACT_TYPE = "vllm", "fp8_block"
ARTEFACT_MARGIN = 1.5
DEEPEP_SMS = 20
DEEPEP_RANKS_PER_NODE = 8
DEEPEP_MAX_NODES = 4
ELEMENT_BYTES = 2.0


@dataclass(frozen=True)
class Sample:
    """The rows one curve is fitted to. ``inputs`` are the formula's arguments, ``seconds`` the measured times."""

    op: str
    gpu: str
    engine: str
    dtype: str
    engine_version: str
    kernel: str
    table: str
    inputs: Mapping[str, Array]
    seconds: Array
    excluded: Mapping[str, int] = field(default_factory=dict)
    rows: Array = field(default_factory=lambda: np.zeros(0))
    """Positions in the table, where it numbers its rows (a column ``row``)."""


Reader = Callable[[str], Table]
"""The table of a name."""
Source = Callable[[Reader, int], "Iterator[Sample]"]


def samples(measured: Path, op: str) -> list[Sample]:
    """Every sample of operator class ``op`` in ``measured`` (the directory that holds ``ops/``)."""
    return samples_of(lambda name: read_table(measured, name), op)


def samples_of(read: Reader, op: str, least: int = MIN_ROWS) -> list[Sample]:
    """Every sample of operator class ``op`` with at least ``least`` rows in the tables that ``read`` gives."""
    return list(SOURCES[op](read, least))


def _gemm(read: Reader, least: int) -> Iterator[Sample]:
    for (gpu, engine, kind), rows in read("gemm").groups("gpu", "engine", "gemm_dtype"):
        main, dropped = _main_kernel(rows)
        if (engine, kind) == (ARTEFACT_ENGINE, ARTEFACT_TYPE):
            # The harness, not the kernel, sets the time of small products here (measured/README.md); what rises
            # well above that floor is kernel time.
            real = main["latency"] > ARTEFACT_MARGIN * np.percentile(main["latency"], 10)
            dropped["artefact floor at small m"] = int((~real).sum())
            main = main.where(real)
        inputs = {c: main.number(c) for c in ("m", "n", "k")}
        yield _sample("gemm", gpu, engine, GEMM_TYPES[kind], main, inputs, dropped)


def _prefill_attention(read: Reader, least: int) -> Iterator[Sample]:
    table = read("context_attention")
    for (gpu, engine, math, cache), rows in table.groups("gpu", "engine", "attn_dtype", "kv_cache_dtype"):
        main, dropped = _main_kernel(rows)
        if len(main) < least or any(name in _kernel(main) for name in STAND_IN_KERNELS):
            continue  # not what the engine runs for this combination by default
        dtype = "fp8" if math == "fp8" else ("fp8kv" if cache == "fp8" else "bf16")
        inputs = _attention_inputs(main) | {
            "new_tokens": main.number("isl"), "past_tokens": np.zeros(len(main))
        }  # fmt: skip
        yield _sample("prefill_attention", gpu, engine, dtype, main, inputs, dropped)


def _decode_attention(read: Reader, least: int) -> Iterator[Sample]:
    table = read("generation_attention")
    for (gpu, engine, cache), rows in table.groups("gpu", "engine", "kv_cache_dtype"):
        main, dropped = _main_kernel(rows)
        inputs = _attention_inputs(main) | {"kv_tokens": main.number("step") + 1.0}
        yield _sample("decode_attention", gpu, engine, CACHE_TYPES[cache], main, inputs, dropped)


def _attention_inputs(rows: Table) -> dict[str, Array]:
    return {
        "batch": rows.number("batch_size"), "heads": rows.number("num_heads"),
        "kv_heads": rows.number("num_key_value_heads"), "head_dim": rows.number("head_dim"),
        "window": rows.number("window_size"),
    }  # fmt: skip


def _prefill_mla(read: Reader, least: int) -> Iterator[Sample]:
    table = read("context_mla")
    for (gpu, engine, cache), rows in table.groups("gpu", "engine", "kv_cache_dtype"):
        inputs = {
            "batch": rows.number("batch_size"), "new_tokens": rows.number("isl"), "past_tokens": np.zeros(len(rows)),
            "heads": rows.number("num_heads"),
        }  # fmt: skip
        yield _sample("prefill_mla", gpu, engine, CACHE_TYPES[cache], rows, inputs, {})


def _decode_mla(read: Reader, least: int) -> Iterator[Sample]:
    table = read("generation_mla")
    for (gpu, engine, cache), rows in table.groups("gpu", "engine", "kv_cache_dtype"):
        inputs = {
            "batch": rows.number("batch_size"), "kv_tokens": rows.number("step") + 1.0,
            "heads": rows.number("num_heads"),
        }  # fmt: skip
        yield _sample("decode_mla", gpu, engine, CACHE_TYPES[cache], rows, inputs, {})


def _mla_bmm(read: Reader, least: int) -> Iterator[Sample]:
    for (gpu, engine, kind), rows in read("mla_bmm").groups("gpu", "engine", "bmm_dtype"):
        inputs = {"tokens": rows.number("num_tokens"), "heads": rows.number("num_heads")}
        yield _sample("mla_bmm", gpu, engine, CACHE_TYPES[kind], rows, inputs, {})


def _moe(op: str, *names: str) -> Source:
    def source(read: Reader, least: int) -> Iterator[Sample]:
        tables = (read(name) for name in names)
        groups = (group for table in tables for group in table.groups("gpu", "engine", "moe_dtype"))
        for (gpu, engine, kind), rows in groups:
            main, dropped = _main_kernel(rows)
            legal = main.number("moe_ep_size") <= main.number("num_experts")
            dropped["more ranks than experts"] = int((~legal).sum())
            main = main.where(legal)
            if len(main) < least:
                continue
            pairs, touched = hottest_rank(
                [_exponent(text) for text in main["distribution"]], main.number("num_tokens"),
                main.number("num_experts"), main.number("topk"), main.number("moe_ep_size"),
            )  # fmt: skip
            plain = "nongated" in _kernel(main)
            inputs = {
                "pairs": pairs, "touched": touched, "hidden": main.number("hidden_size"),
                "inter": main.number("inter_size") / main.number("moe_tp_size"),
                "matrices": np.full(len(main), 2.0 if plain else 3.0),
                "routed": main.number("num_tokens") * main.number("topk") if op == "moe" else pairs,
            }  # fmt: skip
            yield _sample(op, gpu, engine, MOE_TYPES[kind], main, inputs, dropped)

    return source


def _exponent(distribution: str) -> float:
    return float(distribution.split("_")[2]) if distribution.startswith("power_law") else 0.0


def _all_reduce(read: Reader, least: int) -> Iterator[Sample]:
    for (gpu, engine), rows in read("custom_allreduce").groups("gpu", "engine"):
        if engine != "trtllm" and _kernel(rows) == "TRTLLM":
            continue  # a copy of trtllm's rows
        inputs = {"message_bytes": rows.number("message_size") * ELEMENT_BYTES, "ranks": rows.number("num_gpus")}
        yield _sample("all_reduce", gpu, engine, "bf16", rows, inputs, {})


def _nccl(op: str, operation: str, argument: str) -> Source:
    def source(read: Reader, least: int) -> Iterator[Sample]:
        for (gpu, kind), rows in read("nccl").groups("gpu", "operation"):
            if kind == operation:
                size = rows.number("message_size") * ELEMENT_BYTES
                yield _sample(op, gpu, "nccl", "bf16", rows, {argument: size, "ranks": rows.number("num_gpus")}, {})

    return source


def _send(read: Reader, least: int) -> Iterator[Sample]:
    # All-to-all of two ranks is one send each way: half the buffer goes to the peer.
    for (gpu, kind), rows in read("nccl").groups("gpu", "operation"):
        if kind == "all_to_all":
            two = rows.where(rows.number("num_gpus") == 2)
            size = two.number("message_size") * ELEMENT_BYTES / 2.0
            yield _sample("send", gpu, "nccl", "bf16", two, {"message_bytes": size}, {})


def _deepep(op: str, name: str, columns: tuple[str, ...]) -> Source:
    def source(read: Reader, least: int) -> Iterator[Sample]:
        for (gpu,), rows in read(name).groups("gpu"):
            dropped: dict[str, int] = {}
            if "dispatch_sms" in rows.columns:
                usual = rows.number("dispatch_sms") == DEEPEP_SMS
                dropped[f"other than {DEEPEP_SMS} SMs"] = int((~usual).sum())
                rows = rows.where(usual)
                near = rows.number("node_num") <= DEEPEP_MAX_NODES
                # 8 nodes ran at half of what DeepEP publishes for the same NIC (46-51 GB/s at EP64).
                dropped["8 nodes, half the published bandwidth"] = int((~near).sum())
                rows = rows.where(near)
            inputs = {
                "tokens": rows.number("num_token"), "hidden": rows.number("hidden_size"),
                "topk": rows.number("num_topk"), "ep": rows.number("node_num") * DEEPEP_RANKS_PER_NODE,
            }  # fmt: skip
            seconds = np.sum([rows.number(c) for c in columns], axis=0) * MICROSECOND
            dtype = "fp8" if op.endswith("dispatch") else "bf16"
            yield _sample(op, gpu, "deepep", dtype, rows, inputs, dropped, seconds)

    return source


def _main_kernel(rows: Table) -> tuple[Table, dict[str, int]]:
    names, counts = np.unique(rows["kernel_source"], return_counts=True)
    main = rows["kernel_source"] == names[np.argmax(counts)]
    others = int((~main).sum())
    return rows.where(main), ({"other kernels": others} if others else {})


def _kernel(rows: Table) -> str:
    return ", ".join(np.unique(rows["kernel_source"]))


def _sample(
    op: str,
    gpu: str,
    engine: str,
    dtype: str,
    rows: Table,
    inputs: Mapping[str, Array],
    excluded: Mapping[str, int],
    seconds: Array | None = None,
) -> Sample:
    return Sample(
        op=op, gpu=gpu, engine=engine, dtype=dtype, engine_version=", ".join(np.unique(rows["engine_version"])),
        kernel=_kernel(rows), table=rows.name, inputs=inputs,
        seconds=rows.number("latency") * MILLISECOND if seconds is None else seconds,
        excluded={k: v for k, v in excluded.items() if v},
        rows=rows.number("row", -1.0),
    )  # fmt: skip


SOURCES: Mapping[str, Source] = {
    "gemm": _gemm,
    "prefill_attention": _prefill_attention,
    "decode_attention": _decode_attention,
    "prefill_mla": _prefill_mla,
    "decode_mla": _decode_mla,
    "mla_bmm": _mla_bmm,
    "moe": _moe("moe", "moe"),
    "moe_deepep_prefill": _moe("moe_deepep_prefill", "wideep_context_moe", "wideep_moe"),
    "moe_deepep_decode": _moe("moe_deepep_decode", "wideep_generation_moe", "wideep_moe"),
    "all_reduce": _all_reduce,
    "all_reduce_nccl": _nccl("all_reduce_nccl", "all_reduce", "message_bytes"),
    "all_gather": _nccl("all_gather", "all_gather", "total_bytes"),
    "reduce_scatter": _nccl("reduce_scatter", "reduce_scatter", "total_bytes"),
    "all_to_all": _nccl("all_to_all", "all_to_all", "rank_bytes"),
    "send": _send,
    "deepep_ll_dispatch": _deepep("deepep_ll_dispatch", "wideep_deepep_ll", ("dispatch_avg_t_us",)),
    "deepep_ll_combine": _deepep("deepep_ll_combine", "wideep_deepep_ll", ("combine_avg_t_us",)),
    "deepep_normal_dispatch": _deepep(
        "deepep_normal_dispatch", "wideep_deepep_normal", ("dispatch_transmit_us", "dispatch_notify_us")
    ),
    "deepep_normal_combine": _deepep(
        "deepep_normal_combine", "wideep_deepep_normal", ("combine_transmit_us", "combine_notify_us")
    ),
}
