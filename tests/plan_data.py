"""A plan made by hand: every field filled, numbers without meaning."""

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


def candidate(rank: int = 1, serving: str = "agg", tpot: float = 43.1) -> Candidate:
    layout = Layout(tp=1, attention_dp=8, ep=8)
    pools: dict[str, Any] = {}
    if serving == "disagg":
        pool = Pool(node="dgx-h200", layout=layout, workers=2, gpus=16, nodes=2, memory_gib=memory())
        pools = {"prefill_pool": pool, "decode_pool": pool}
    return Candidate(
        rank=rank,
        layout=layout,
        serving=serving,  # type: ignore[arg-type]
        gpus=16,
        replicas=2,
        node="dgx-h200",
        accelerator="h200-sxm",
        nodes=2,
        **pools,
        ttft_ms=Percentiles(mean=812.0),
        tbt_ms=Percentiles(mean=tpot),
        tpot_ms=Percentiles(mean=tpot),
        e2e_ms=Percentiles(mean=35000.0),
        goodput_rps=3.1,
        throughput_rps=3.1,
        output_tokens_per_s_per_gpu=155.0,
        input_tokens_per_s_per_gpu=233.0,
        output_tokens_per_s_per_user=1000 / tpot,
        concurrency=108.5,
        concurrency_per_worker=54.25,
        max_concurrency=900.0,
        settings=OperatingPoint(max_num_seqs=256, max_num_batched_tokens=8192),
        memory_gib=memory(),
        usd_per_hour=56.0,
        usd_per_mtok=UsdPerMtok(input=1.2, output=6.27),
        joules_per_token=4.1,
        interval={"tpot_ms": Interval(low80=38.0, high80=49.2, low50=41.0, high50=45.0)},
        slo=(
            SloCheck(metric="tpot_ms", percentile="mean", limit=50.0, value=tpot, judged_on="mean", met=True),
            SloCheck(metric="ttft_ms", percentile="p95", limit=2000.0, value=812.0, judged_on="mean", met=True),
        ),
        binding="HBM bandwidth in decode attention takes 61% of the step",
        explanation=("Fewer GPUs hold too little KV.",),
        breakdown=Breakdown(
            step_ms={"decode": 40.0, "prefill": 200.0},
            terms=(
                Term(phase="decode", term="attention", exposed_ms=24.4, share=0.61, bound="memory"),
                Term(phase="decode", term="dispatch", exposed_ms=15.6, hidden_ms=3.0, share=0.39, bound="network"),
                Term(phase="prefill", term="routed_experts", exposed_ms=200.0, share=1.0, bound="compute"),
            ),
        ),
        traffic=(TierTraffic(tier="scale_up", phase="decode", mib_per_step=12.5),),
        evidence=Evidence(
            extrapolated=True,
            distance="new layout",
            marks=(Mark(subject="gemm/fp8", text="from the H100 curve on H200 peaks"),),
        ),
    )


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
