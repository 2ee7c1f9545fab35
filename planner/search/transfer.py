"""KV transfers between the pools of a deployment: bytes, links, what shows of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.model.kv import kv_bytes_per_sequence
from planner.roofline import operators as op
from planner.search.plan_schema import KvTransfer
from planner.search.setup import Hardware, Setup
from planner.search.standing import in_one_domain
from planner.search.table import Deployments, IntArray, Workers
from planner.serving.prefill_pool import PrefillPool
from planner.serving.split import KvMoves, exposed_transfer, kv_moves
from planner.units import MIB, MILLISECOND

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Links:
    """What a prompt of mean length asks of the links between pairs of workers, arrays (n,)."""

    send_s: Array
    """Seconds that it keeps the link of a sending GPU busy."""
    receive_s: Array
    latency_s: Array
    size_bytes: Array
    """Its cache, counted once."""
    copies: Array
    """Times that the cache crosses the links."""
    across: BoolArray
    """Over the NICs; else inside one scale-up domain."""


def links(s: Setup, prefill: Workers, decode: Workers, across: BoolArray | None = None) -> Links:
    """Links of pairs of workers.

    Each GPU of the decode rank takes what it holds, its heads of its stage's layers: over the scale-up link where both
    pools stand in one domain (:func:`planner.search.standing.in_one_domain`), else over the NIC; ``across`` (n,) says
    it where the pools are parts of larger ones. What TP replicates, such as a latent (MLA),
    therefore crosses once for each decode rank, whatever prefill's TP is. A prefill GPU sends its own shard, or what
    several decode ranks take from it; prefill ranks beyond those read sit out. So do the connectors: vLLM's
    ``nixl_connector.py`` (``get_target_remote_ranks``; ``_read_blocks_for_req``: one read of a duplicated cache),
    SGLang's ``disaggregation/common/conn.py`` (``_resolve_rank_mapping``), TensorRT-LLM's ``mlaCacheFormatter.cpp``
    (``needSendCache``, ``pickRecvConnections``). Time per byte and latency are those of a send of one and of two mean
    prompts.
    """
    if across is None:
        across = ~in_one_domain(s, prefill, decode)
    mean = float(s.traffic.input_tokens)
    whole, sent, taken = (
        kv_bytes_per_sequence(s.spec, s.precision.kv, mean, tp) for tp in (1, prefill.layouts.tp, decode.layouts.tp)
    )
    sent = np.maximum(sent, taken * decode.layouts.tp / prefill.layouts.tp)
    ends = []
    for w, size in ((prefill, sent / prefill.layouts.pp), (decode, taken / decode.layouts.pp)):
        first, second = (_send(w.hardware, k * size, across) for k in (1.0, 2.0))
        ends.append((second - first, np.maximum(2.0 * first - second, 0.0)))
    (send, first), (receive, second) = ends
    copies = taken * decode.layouts.tp / whole
    return Links(send, receive, np.maximum(first, second), np.broadcast_to(whole, copies.shape), copies, across)


def _send(hw: Hardware, size: Array, across: BoolArray) -> Array:
    return np.asarray(op.send(hw.ctx.curves.get("send", "bf16"), size, across), dtype=float)


def sent_layers(s: Setup, hw: Hardware) -> int:
    """Parts in which a prompt's cache is sent: its layers where they leave while later ones are computed, else one."""
    return hw.ctx.program.layers if s.scenario.engine.options.kv_transfer_overlap is True else 1


def transfers(
    s: Setup, prefill: Workers, decode: Workers, pool: PrefillPool, rate: Array, across: BoolArray | None = None
) -> KvMoves:
    """Transfers of pairs of pools at ``rate`` requests per second (n,), over the NICs where ``across``."""
    found = links(s, prefill, decode, across)
    senders = prefill.count * prefill.layouts.attention_dp
    receivers = decode.count * decode.layouts.attention_dp
    seen = np.maximum(pool.prompts_per_step / prefill.layouts.attention_dp, 1.0)
    return kv_moves(
        found.send_s,
        found.receive_s,
        found.latency_s,
        sent_layers(s, prefill.hardware),
        pool.step_s,
        seen,
        rate / senders,
        rate / receivers,
        s.prompt_shape.moment(2),
    )


def closed_transfer(s: Setup, prefill: Workers, decode: Workers, prompt_s: Array) -> Array:
    """Seconds of a transfer that show where requests come one at a time, (n,)."""
    found, layers = links(s, prefill, decode), sent_layers(s, prefill.hardware)
    return exposed_transfer(np.maximum(found.send_s, found.receive_s), 1.0, found.latency_s, layers, prompt_s)


def transfer_plans(s: Setup, d: Deployments, rows: IntArray) -> list[KvTransfer]:
    """What a plan says of the transfers of split deployments in ``rows`` of a table."""
    assert d.prefill is not None
    assert d.loaded is not None
    prefill, decode, pool = d.prefill.take(rows), d.decode.take(rows), d.loaded.take(rows).prefill
    found, layers = links(s, prefill, decode), sent_layers(s, prefill.hardware)
    if pool is None:
        prompt_s = d.loaded.take(rows).loop
        assert prompt_s is not None
        exposed = closed_transfer(s, prefill, decode, prompt_s.ttft_s)
        rate = d.outcome.throughput_rps[rows]
        whole, wait = np.maximum(found.send_s, found.receive_s), np.zeros(rows.size)
        busy = (
            rate * found.send_s / (prefill.count * prefill.layouts.attention_dp),
            rate * found.receive_s / (decode.count * decode.layouts.attention_dp),
        )
    else:
        moves = transfers(s, prefill, decode, pool, pool.given.rate_rps)
        exposed, wait, whole = moves.exposed_s + moves.wait_s, moves.wait_s, moves.whole_s
        busy = (moves.send_utilisation, moves.receive_utilisation)
    columns = (found.size_bytes / MIB, found.copies, found.across, whole, wait, exposed, *busy)
    wide = [np.broadcast_to(v, rows.size) for v in columns]
    return [
        KvTransfer(
            mib=float(size),
            copies=float(times),
            link="network" if across else "scale_up",
            overlapped=layers > 1,
            whole_ms=float(one) / MILLISECOND,
            wait_ms=float(waits) / MILLISECOND,
            exposed_ms=float(shown) / MILLISECOND,
            send_utilisation=float(out),
            receive_utilisation=float(into),
        )
        for size, times, across, one, waits, shown, out, into in zip(*wide, strict=True)
    ]


def transfer_sentences(t: KvTransfer | None) -> tuple[str, ...]:
    """The transfer in words; nothing for aggregated serving."""
    if t is None:
        return ()
    link = "network" if t.link == "network" else "scale-up link"
    busy = max(t.send_utilisation, t.receive_utilisation)
    times = "" if t.copies <= 1.0 else f" {t.copies:,.3g} times, once for each decode rank that holds it,"
    return (
        f"A prompt's KV cache of {t.mib:,.0f} MiB moves over the {link}{times} in {t.whole_ms:,.1f} ms and adds "
        f"{t.exposed_ms:,.1f} ms to TTFT, latency and waits included; the busiest link carries transfers {busy:.0%} of "
        "the time.",
    )
