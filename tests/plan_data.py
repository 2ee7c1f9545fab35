"""Plans made by hand, in which every field is filled: :func:`plan` with numbers without meaning, :func:`many` of any
scenario with as many candidates as a real one and figures in its proportions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.scenario.identity import Identity
from planner.scenario.load import load_scenario
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

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def memory(kv: float = 40.1) -> MemoryGib:
    return MemoryGib(
        weights=80.5,
        kv=kv,
        workspace=3.2,
        collectives=1.1,
        graphs=2.0,
        runtime=1.5,
        margin=0.0,
        total=88.3 + kv,
        capacity=131.5,
    )


def candidate(rank: int = 1, serving: str = "agg", tpot: float = 43.1, **changes: Any) -> Candidate:
    layout = Layout(tp=1, attention_dp=8, ep=8)
    pools: dict[str, Any] = {}
    if serving == "disagg":
        pool = Pool(node="dgx-h200", layout=layout, workers=2, gpus=16, nodes=2, memory_gib=memory())
        pools = {"prefill_pool": pool, "decode_pool": pool}
    fields: dict[str, Any] = {
        "rank": rank,
        "layout": layout,
        "serving": serving,
        "gpus": 16,
        "replicas": 2,
        "node": "dgx-h200",
        "accelerator": "h200-sxm",
        "nodes": 2,
        **pools,
        "ttft_ms": Percentiles(mean=812.0),
        "tbt_ms": Percentiles(mean=tpot),
        "tpot_ms": Percentiles(mean=tpot),
        "e2e_ms": Percentiles(mean=35000.0),
        "goodput_rps": 3.1,
        "throughput_rps": 3.1,
        "output_tokens_per_s_per_gpu": 155.0,
        "input_tokens_per_s_per_gpu": 233.0,
        "output_tokens_per_s_per_user": 1000 / tpot,
        "concurrency": 108.5,
        "concurrency_per_worker": 54.25,
        "max_concurrency": 900.0,
        "settings": OperatingPoint(max_num_seqs=256, max_num_batched_tokens=8192),
        "memory_gib": memory(),
        "usd_per_hour": 56.0,
        "usd_per_mtok": UsdPerMtok(input=1.2, output=6.27),
        "joules_per_token": 4.1,
        "interval": {"tpot_ms": Interval(low80=38.0, high80=49.2, low50=41.0, high50=45.0)},
        "slo": (
            SloCheck(metric="tpot_ms", percentile="mean", limit=50.0, value=tpot, judged_on="mean", met=True),
            SloCheck(metric="ttft_ms", percentile="p95", limit=2000.0, value=812.0, judged_on="mean", met=True),
        ),
        "binding": "HBM bandwidth in decode attention takes 61% of the step",
        "explanation": ("Fewer GPUs hold too little KV.",),
        "breakdown": Breakdown(
            step_ms={"decode": 40.0, "prefill": 200.0},
            terms=(
                Term(phase="decode", term="attention", exposed_ms=24.4, share=0.61, bound="memory"),
                Term(phase="decode", term="dispatch", exposed_ms=15.6, hidden_ms=3.0, share=0.39, bound="network"),
                Term(phase="prefill", term="routed_experts", exposed_ms=200.0, share=1.0, bound="compute"),
            ),
        ),
        "traffic": (TierTraffic(tier="scale_up", phase="decode", mib_per_step=12.5),),
        "evidence": Evidence(
            extrapolated=True,
            distance="new layout",
            marks=(Mark(subject="gemm/fp8", text="from the H100 curve on H200 peaks"),),
        ),
    }
    return Candidate(**{**fields, **changes})


def plan(feasible: bool = True, **changes: Any) -> Plan:
    scenario: Scenario = changes.pop("scenario", None) or load_scenario(EXAMPLES / "deepseek-r1-h200.yaml")
    rejected = (
        Rejection(
            reason="memory",
            count=812,
            term="weights",
            needed=160.2,
            available=131.5,
            unit="GiB",
            example="TP4 on dgx-h200 needs 160.2 GiB of weights on the fullest rank",
            fix="TP8",
        ),
        Rejection(reason="slo_tpot", count=4, example="TP8 at 512 in flight", fix="fewer in flight"),
    )
    miss = NearestMiss(
        node="dgx-h200",
        serving="agg",
        layout=Layout(tp=4, moe_tp=4),
        gpus=4,
        reason="memory",
        needed=160.2,
        available=131.5,
        unit="GiB",
        text="TP4 misses 28.7 GiB of weights.",
        fix="8 GPUs (TP8)",
    )
    point = ParetoPoint(
        rank=1,
        serving="agg",
        node="dgx-h200",
        layout=Layout(attention_dp=8, ep=8),
        replicas=2,
        gpus=16,
        concurrency=108.5,
        usd_per_mtok_output=6.27,
        output_tokens_per_s_per_gpu=155.0,
        ttft_ms=812.0,
        tpot_ms=43.1,
    )
    fields: dict[str, Any] = {
        "scenario": scenario,
        "identity": Identity(
            checkpoint="deepseek-ai/DeepSeek-R1",
            precision={"default": "fp8_block", "kv": "bf16"},
            engine="sglang",
            gpu="h200-sxm",
            topology="dgx-h200 × 1, DP8 EP8",
        ),
        "versions": Versions(planner="0.1.0", catalogue="1e3", coefficients="0123"),
        "candidates": (candidate(1), candidate(2, "disagg", 44.0)) if feasible else (),
        "pareto": (point,) if feasible else (),
        "rejected": rejected,
        "nearest_misses": () if feasible else (miss,),
        "assumptions": ("A percentile limit is judged on the mean.",),
        "evaluated": 1200,
        "feasible": 384 if feasible else 0,
    }
    return Plan(**{**fields, **changes})


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


def many(scenario: Scenario) -> Plan:
    """A plan of ``scenario`` with 24 candidates, or one without any where a limit on TPOT is under 15 ms."""
    node = scenario.hardware.candidates[0].node
    limit = _limit(scenario)
    made = [
        _in_proportion(scenario, node, tpot, disagg)
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


def _in_proportion(scenario: Scenario, node: str, tpot: float, disagg: bool) -> Candidate:
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
    return candidate(
        tpot=tpot,
        layout=layout,
        serving="disagg" if disagg else "agg",
        gpus=gpus,
        replicas=8 if disagg else gpus // 8,
        node=node,
        accelerator="h800-sxm",
        nodes=gpus // 8,
        ttft_ms=Percentiles(mean=1390.0 if disagg else 900.0 + 9 * tpot),
        goodput_rps=1605.0,
        throughput_rps=1605.0,
        output_tokens_per_s_per_gpu=rate,
        concurrency=1605 * 1.211 * tpot,
        max_concurrency=1605 * 1.211 * tpot * 1.31,
        settings=OperatingPoint(max_num_seqs=128),
        memory_gib=_memory(37.0),
        usd_per_hour=usd,
        usd_per_mtok=UsdPerMtok(output=cost),
        joules_per_token=None,
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
