"""Chosen deployments written out as plan candidates: times, memory, breakdown, what binds, how sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from planner.memory.budget import MemoryBudget
from planner.search.candidate_parts import (
    breakdown_of,
    intervals_of,
    known,
    latencies,
    nearest_limit,
    slo_checks,
    step_bytes,
    tier_traffic,
    token_prices,
)
from planner.search.certainty import distance_of, evidence_note, extra_spread
from planner.search.evaluation import budget_of, cache_slots, kv_slots
from planner.search.explain import binding_sentence, explain_step, gain_sentence
from planner.search.in_flight import in_workers
from planner.search.loaded import good_part
from planner.search.next_step import next_steps
from planner.search.plan_schema import (
    AdmissionPolicy,
    Breakdown,
    Candidate,
    Evidence,
    KvTransfer,
    Layout,
    MemoryGib,
    OperatingPoint,
    Percentiles,
    Phase,
    Pool,
    PriorityLatency,
    TierTraffic,
    UsdPerMtok,
)
from planner.search.policies import admission_policy, by_priority
from planner.search.setup import Setup
from planner.search.standing import billed_gpus, spare_nodes, standing
from planner.search.table import Deployments, IntArray
from planner.search.transfer import transfer_plans, transfer_sentences
from planner.search.worker_settings import (
    decode_sequences,
    operating_point,
    prefill_budget,
    prefill_sequences,
)
from planner.serving.stepwise import with_stepwise
from planner.serving.worker import Scheduling, aggregated_steps, decode_work, prefill_pool_steps


def candidates(s: Setup, d: Deployments, rows: IntArray, ranks: Mapping[int, int]) -> dict[int, Candidate]:
    """Candidates for ``rows`` of a table, by row; ``ranks`` gives each row's rank."""
    assert d.loaded is not None
    looked_at = {k: d.steps[row] for k, row in enumerate(rows.tolist()) if row in d.steps}
    result = with_stepwise(d.loaded.take(rows).result(), looked_at)
    held = in_workers(s, d, rows, result)
    # decode pools stay where their steps were evaluated, in a closed loop with full workers: their times are of those
    steps_with = held if d.prefill is None else d.decode.concurrency[rows]
    chosen = replace(d.decode.take(rows), concurrency=np.maximum(steps_with, 1.0))  # a step has a request in it
    budget = budget_of(s, chosen.hardware, chosen.layouts, chosen.concurrency, chosen.token_budget)
    share, drafts = s.request_share if d.prefill is None else 1.0, len(s.acceptance)
    slots = kv_slots(s, chosen, budget, share)
    if d.prefill is None:
        scheduling = Scheduling(
            chosen.token_budget.astype(float), s.scheduler.policy == "prefill_first", chosen.two_batch, chosen.deepep
        )
        steps = aggregated_steps(chosen.layouts, chosen.concurrency, slots, s.step_traffic, scheduling)
        decode = explain_step(s, chosen, steps.decode, drafts)
        prefill = explain_step(s, chosen, steps.prefill, drafts)
        pool, pool_budget, transfer = None, None, None
        second: Phase = "prefill" if s.scheduler.policy == "prefill_first" else "mixed"
    else:
        decode = explain_step(s, chosen, decode_work(chosen.concurrency, chosen.layouts, s.traffic), drafts)
        pool = d.prefill.take(rows)
        work, _, _ = prefill_pool_steps(pool.layouts, s.traffic, pool.token_budget.astype(float))
        prefill = explain_step(s, pool, work)
        pool_sequences = prefill_sequences(s, pool)
        pool_budget = prefill_budget(s, pool)
        transfer = transfer_plans(s, d, rows)
        second = "prefill"
    up, far = step_bytes(s, chosen)
    goodput = d.outcome.goodput_rps[rows]
    goodput = np.where(np.isnan(goodput), d.outcome.throughput_rps[rows] * good_part(s, result), goodput)
    sequences, budget = decode_sequences(s, chosen, result, share)
    memory_holds = cache_slots(s, chosen, budget, share)
    hardware = [d.decode.hardware] if d.prefill is None else [d.prefill.hardware, d.decode.hardware]
    spread, note = extra_spread(hardware), cache(partial(evidence_note, s, hardware))
    leaner = next_steps(s, d, rows, ranks, held)
    pools = [chosen] if pool is None else [pool, chosen]
    paid, stand, spare = billed_gpus(s, pools), standing(s, pools), spare_nodes(s, pools)
    out: dict[int, Candidate] = {}
    for k, row in enumerate(int(r) for r in rows):
        settings = operating_point(s, chosen, sequences, k)
        at_once = int(sequences[k] * chosen.layouts.attention_dp[k])
        out[row] = _candidate(
            s,
            d,
            row,
            ranks[row],
            latencies(result, k),
            spread=spread,
            note=note,
            memory=MemoryGib(**budget.gib(k)),
            paid=int(paid[k]),
            nodes=int(stand.nodes[k]) + spare,
            shared=None if stand.shared is None else int(stand.shared[k]),
            held=float(held[k]),
            per_worker=float(steps_with[k]),
            memory_holds=float(memory_holds[k]),
            settings=settings,
            goodput_rps=float(goodput[k]),
            rejection=float(result.rejection[k]),
            outside=bool(result.outside[k]),
            admission=admission_policy(s, result, k, at_once),
            priorities=by_priority(s, d.loaded.worker.take(rows), result, k) if d.prefill is None else (),
            breakdown=breakdown_of((("decode", decode), (second, prefill)), k),
            binding=binding_sentence(decode, k, "decode"),
            leaner=leaner.get(row),
            gains=(gain_sentence(decode, k, "decode"), gain_sentence(prefill, k, second)),
            pools=None
            if pool is None or pool_budget is None
            else _pools(
                s,
                d,
                row,
                stand.of_pool,
                (pool_budget, budget),
                (operating_point(s, pool, pool_sequences, k, drafts=False), settings),
                k,
            ),
            transfer=None if transfer is None else transfer[k],
            traffic=tier_traffic(float(up[k]), float(far[k])),
        )
    return out


def _candidate(
    s: Setup,
    d: Deployments,
    i: int,
    rank: int,
    latency: Mapping[str, Percentiles],
    *,
    spread: float,
    note: Callable[..., Evidence],
    memory: MemoryGib,
    paid: int,
    nodes: int,
    shared: int | None,
    held: float,
    per_worker: float,
    memory_holds: float,
    settings: OperatingPoint,
    goodput_rps: float,
    rejection: float,
    outside: bool,
    admission: AdmissionPolicy,
    priorities: tuple[PriorityLatency, ...],
    breakdown: Breakdown,
    binding: str,
    leaner: str | None,
    gains: tuple[str, ...],
    pools: tuple[Pool, Pool] | None,
    transfer: KvTransfer | None,
    traffic: tuple[TierTraffic, ...],
) -> Candidate:
    o, w = d.outcome, d.decode
    kind = distance_of(s, d, i)
    interval = intervals_of(s, d, i, kind, spread, latency)
    checks = slo_checks(s, latency, interval)
    gpus = int(d.gpus[i])
    output_rate = float(o.throughput_rps[i]) * float(s.traffic.output_tokens)
    input_rate = float(o.throughput_rps[i]) * float(s.traffic.input_tokens)
    return Candidate(
        rank=rank,
        layout=Layout(**w.layouts.row(i)),
        serving=d.serving,
        gpus=gpus,
        gpus_paid=paid,
        replicas=int(w.count[i]),
        node=w.hardware.id,
        accelerator=w.hardware.accelerator.id,
        nodes=nodes,
        shared_nodes=shared,
        prefill_pool=None if pools is None else pools[0],
        decode_pool=None if pools is None else pools[1],
        ttft_ms=latency["ttft_ms"],
        tbt_ms=latency["tbt_ms"],
        tpot_ms=latency["tpot_ms"],
        e2e_ms=latency["e2e_ms"],
        wait_ms=latency["wait_ms"],
        kv_transfer_ms=None if transfer is None else transfer.exposed_ms,
        kv_transfer=transfer,
        goodput_rps=goodput_rps,
        throughput_rps=float(o.throughput_rps[i]),
        output_tokens_per_s_per_gpu=output_rate / gpus,
        input_tokens_per_s_per_gpu=input_rate / gpus,
        output_tokens_per_s_per_user=None if latency["tpot_ms"].mean is None else 1e3 / latency["tpot_ms"].mean,
        rejection_probability=rejection,
        completion_rate=float(1.0 - o.rejection[i]) if o.stable[i] else 0.0,
        concurrency=held * float(w.count[i]),
        concurrency_per_worker=per_worker,
        max_concurrency=memory_holds * float(w.count[i]),
        admission=admission,
        priorities=priorities,
        settings=settings,
        memory_gib=memory,
        usd_per_hour=known(o.usd_per_hour[i]),
        usd_per_mtok=token_prices(s, float(o.usd_per_mtok_input[i]), float(o.usd_per_mtok_output[i])),
        joules_per_token=known(o.joules_per_token[i]),
        interval=interval,
        slo=checks,
        binding=binding,
        explanation=(
            *([] if leaner is None else [leaner]),
            *nearest_limit(checks),
            *transfer_sentences(transfer),
            *gains,
        ),
        breakdown=breakdown,
        traffic=traffic,
        evidence=note(kind, outside=outside),
    )


def serves_nothing(candidate: Candidate) -> Candidate:
    """A layout that does not hold a single request: one worker with its memory and its steps, without what it would
    deliver.
    """
    one, gpus = Percentiles(), candidate.layout.gpus
    return candidate.model_copy(
        update={
            **dict.fromkeys(("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms", "wait_ms"), one),
            **dict.fromkeys(("goodput_rps", "throughput_rps", "completion_rate", "max_concurrency"), 0.0),
            **dict.fromkeys(("output_tokens_per_s_per_gpu", "input_tokens_per_s_per_gpu"), 0.0),
            **dict.fromkeys(("usd_per_hour", "joules_per_token", "output_tokens_per_s_per_user", "admission")),
            "usd_per_mtok": UsdPerMtok(),
            "replicas": 1,
            "gpus": gpus,
            "nodes": None,
            "shared_nodes": None,
            "gpus_paid": None,
            "rejection_probability": 1.0,
            "concurrency": 0.0,
            "interval": {},
            "slo": (),
            "priorities": (),
            "explanation": (),
        }
    )


def _pools(
    s: Setup,
    d: Deployments,
    i: int,
    nodes: tuple[IntArray, ...],
    budgets: tuple[MemoryBudget, MemoryBudget],
    settings: tuple[OperatingPoint, OperatingPoint],
    k: int,
) -> tuple[Pool, Pool]:
    assert d.prefill is not None
    rate = float(d.outcome.throughput_rps[i])
    tokens = (float(s.traffic.new_tokens), float(s.traffic.output_tokens))
    busy = (float(d.outcome.prefill_utilisation[i]), float(d.outcome.utilisation[i]))
    pools = []
    rows = zip(d.pools, nodes, budgets, settings, tokens, busy, strict=True)
    for w, taken, budget, own, per_request, used in rows:
        gpus = int(w.gpus[i])
        pools.append(
            Pool(
                node=w.hardware.id,
                layout=Layout(**w.layouts.row(i)),
                workers=int(w.count[i]),
                gpus=gpus,
                nodes=int(taken[k]),
                concurrency_per_worker=float(w.concurrency[i]),
                utilisation=used,
                tokens_per_s_per_gpu=rate * per_request / gpus,
                memory_gib=MemoryGib(**budget.gib(k)),
                settings=own,
            )
        )
    return pools[0], pools[1]
