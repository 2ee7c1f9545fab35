"""A hand-made plan with every part that a page may show, in rough proportion to a real one: figures are tested
without a search.
"""

from __future__ import annotations

from planner.scenario.identity import Identity
from planner.scenario.schema import Scenario
from planner.search.plan_schema import (
    Breakdown,
    Candidate,
    Evidence,
    Interval,
    Layout,
    Mark,
    MemoryGib,
    NearestMiss,
    OperatingPoint,
    ParetoPoint,
    Percentiles,
    Plan,
    Pool,
    Rejection,
    SloCheck,
    Term,
    TierTraffic,
    UsdPerMtok,
    Versions,
)

DECODE = (
    ("attention_projections", 4.1, 0.0, "memory"),
    ("attention", 9.8, 0.0, "memory"),
    ("router", 0.3, 0.0, "latency"),
    ("dispatch", 2.2, 5.6, "network"),
    ("routed_experts", 11.9, 0.0, "memory"),
    ("combine", 3.4, 7.1, "network"),
    ("shared_experts", 0.4, 1.9, "memory"),
    ("norms", 0.8, 0.0, "latency"),
    ("head", 0.2, 0.0, "memory"),
    ("sampling", 0.1, 0.0, "host"),
    ("host", 1.5, 0.0, "host"),
)
PREFILL = (
    ("attention_projections", 110.0, 0.0, "compute"),
    ("attention", 68.0, 0.0, "compute"),
    ("dispatch", 12.0, 55.0, "network"),
    ("routed_experts", 160.0, 0.0, "compute"),
    ("combine", 20.0, 80.0, "network"),
    ("shared_experts", 24.0, 0.0, "compute"),
)


def sample_plan(scenario: Scenario) -> Plan:
    """A plan of ``scenario`` with 24 candidates, or one without any where a limit on TPOT is under 15 ms."""
    node = scenario.hardware.candidates[0].node
    limit = _limit(scenario)
    made = [
        _candidate(scenario, node, tpot, disagg)
        for tpot in (18, 22, 26, 31, 37, 44, 49, 55, 64, 76, 90, 110)
        for disagg in (False, True)
    ]
    fine = sorted((c for c in made if (c.tpot_ms.mean or 0) <= limit), key=lambda c: c.usd_per_mtok.output or 0)
    candidates = tuple(c.model_copy(update={"rank": i}) for i, c in enumerate(fine, start=1))
    return Plan(
        scenario=scenario,
        identity=Identity(checkpoint=scenario.model, gpu="h800-sxm"),
        versions=Versions(planner="0.1.0", catalogue="0123456789ab", coefficients="ba9876543210"),
        candidates=candidates,
        pareto=_pareto(candidates, node),
        rejected=_rejected(),
        nearest_misses=() if candidates else _misses(node),
        assumptions=(
            "A limit on ttft_ms at p95 is judged on the mean: percentiles under load are not computed yet",
            "Power is not known for hgx-h800; no energy is given",
        ),
        evaluated=812_345,
        feasible=len(candidates),
    )


def _limit(scenario: Scenario) -> float:
    given = [v for m, _p, v in scenario.slo.limits() if m in ("tpot_ms", "tbt_ms")]
    return min(given, default=1e9) if min(given, default=1e9) >= 15 else 0.0


def _memory(kv: float) -> MemoryGib:
    parts = {"weights": 27.4, "workspace": 3.1, "collectives": 2.2, "graphs": 1.4, "runtime": 1.1, "margin": 4.9}
    return MemoryGib(**parts, kv=kv, total=kv + sum(parts.values()), capacity=79.1)


def _terms() -> Breakdown:
    terms = []
    for phase, rows in (("decode", DECODE), ("prefill", PREFILL)):
        total = sum(r[1] for r in rows)
        terms += [
            Term(phase=phase, term=n, exposed_ms=e, hidden_ms=h, share=e / total, bound=b)  # type: ignore[arg-type]
            for n, e, h, b in rows
        ]
    step = {"decode": sum(r[1] for r in DECODE), "prefill": sum(r[1] for r in PREFILL)}
    return Breakdown(step_ms=step, terms=tuple(terms))  # type: ignore[arg-type]


def _candidate(scenario: Scenario, node: str, tpot: float, disagg: bool) -> Candidate:
    layout = Layout(tp=1, attention_dp=144, ep=144, redundant_experts=32) if disagg else Layout(tp=8, ep=8)
    rate = 40.0 * tpot**0.85 * (1.1 if disagg else 1.0)
    gpus = 1808 if disagg else 8 * round(4000 / tpot)
    usd = 2.0 * gpus
    cost = usd / (rate * gpus * 3600) * 1e6
    pools = {}
    if disagg:
        prefill = Layout(tp=1, attention_dp=32, ep=32, redundant_experts=32)
        pools = {
            "prefill_pool": Pool(node=node, layout=prefill, workers=20, gpus=640, nodes=80, memory_gib=_memory(31.2)),
            "decode_pool": Pool(node=node, layout=layout, workers=8, gpus=1152, nodes=144, memory_gib=_memory(37.0)),
        }
    return Candidate(
        rank=1,
        layout=layout,
        serving="disagg" if disagg else "agg",
        gpus=gpus,
        replicas=8 if disagg else gpus // 8,
        node=node,
        accelerator="h800-sxm",
        nodes=gpus // 8,
        ttft_ms=Percentiles(mean=1390.0 if disagg else 900.0 + 9 * tpot),
        tbt_ms=Percentiles(mean=tpot),
        tpot_ms=Percentiles(mean=tpot),
        goodput_rps=1605.0,
        throughput_rps=1605.0,
        output_tokens_per_s_per_gpu=rate,
        concurrency=1605 * 1.211 * tpot,
        max_concurrency=1605 * 1.211 * tpot * 1.31,
        settings=OperatingPoint(max_num_seqs=128),
        memory_gib=_memory(37.0),
        usd_per_hour=usd,
        usd_per_mtok=UsdPerMtok(output=cost),
        interval={
            "ttft_ms": Interval(low80=1100, high80=1780),
            "tpot_ms": Interval(low80=0.88 * tpot, high80=1.15 * tpot),
            "usd_per_mtok": Interval(low80=0.86 * cost, high80=1.13 * cost),
            "output_tokens_per_s_per_gpu": Interval(low80=0.88 * rate, high80=1.15 * rate),
        },
        slo=tuple(
            SloCheck(
                metric=m, percentile=p, limit=v, value=1390.0 if m == "ttft_ms" else tpot, judged_on="mean", met=True
            )
            for m, p, v in scenario.slo.limits()
        ),
        binding="memory bandwidth in decode attention (31 % of the step)",
        explanation=(
            "More requests in flight would lift tokens/s per GPU, but TPOT would pass its limit of 50 ms",
            "A wider expert-parallel group would spread the experts further, but dispatch already takes 16 %",
        ),
        breakdown=_terms(),
        traffic=(TierTraffic(tier="network", phase="decode", mib_per_step=84.0),),
        evidence=Evidence(
            extrapolated=disagg,
            distance="the layout is wider than any that was measured (EP144 against EP72)" if disagg else None,
            marks=(Mark(subject="tpot_ms", text="dispatch over 18 nodes is extrapolated from 9"),) if disagg else (),
        ),
        **pools,
    )


def _pareto(candidates: tuple[Candidate, ...], node: str) -> tuple[ParetoPoint, ...]:
    listed = [
        ParetoPoint(
            rank=c.rank,
            serving=c.serving,
            node=c.node,
            layout=c.layout,
            replicas=c.replicas,
            gpus=c.gpus,
            concurrency=c.concurrency,
            usd_per_mtok_output=c.usd_per_mtok.output,
            output_tokens_per_s_per_gpu=c.output_tokens_per_s_per_gpu,
            ttft_ms=c.ttft_ms.mean or 0,
            tpot_ms=c.tpot_ms.mean or 0,
        )
        for c in candidates
        if c.serving == "disagg"
    ]
    unlisted = ParetoPoint(
        serving="agg",
        node=node,
        layout=Layout(tp=16, moe_tp=16),
        replicas=90,
        gpus=1440,
        concurrency=800,
        usd_per_mtok_output=3.1,
        output_tokens_per_s_per_gpu=180,
        ttft_ms=300,
        tpot_ms=12,
    )
    return (*listed, unlisted) if listed else ()


def _rejected() -> tuple[Rejection, ...]:
    return (
        Rejection(
            reason="memory",
            count=1204,
            term="weights",
            needed=166.9,
            available=71.2,
            unit="GiB",
            example="TP4 on one node needs 166.9 of 71.2 GiB on its fullest GPU",
            fix="TP8 EP8 over two nodes fits (62.1 of 71.2 GiB)",
        ),
        Rejection(
            reason="slo_tpot",
            count=40_112,
            needed=51.3,
            available=50.0,
            unit="ms",
            example="TP8 EP8 with 96 requests in flight: TPOT is 51.3 ms, the limit 50 ms",
        ),
    )


def _misses(node: str) -> tuple[NearestMiss, ...]:
    return tuple(
        NearestMiss(
            node=node,
            serving="agg",
            layout=Layout(tp=tp, moe_tp=tp),
            gpus=tp,
            reason="memory",
            needed=760.0 / tp,
            available=71.2,
            unit="GiB",
            text=f"TP{tp} needs {760 / tp:.0f} of 71.2 GiB on its fullest GPU",
            fix="16 GPUs of this type, or weights in fp8",
        )
        for tp in (8, 4, 1)
    )
