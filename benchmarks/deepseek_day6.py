"""DeepSeek's published service and profiles against the planner: ``python benchmarks/deepseek_day6.py``.

Tokens per second and H800 node of the layouts that DeepSeek runs, predicted with an 80 % interval, beside what is
published (``measured/published/e2e_deepseek.yaml``). No coefficient was fitted on any of these figures, and the engine
is DeepSeek's own: SGLang's curves and host times stand in for it.

The day-6 figures are means of a day's traffic over nodes that are not always full, the planner's are of full ones:
they bound the published rates from above. For prefill that is a factor of two, in DeepSeek's own figures too: full
nodes of the profile compute 62.7k tokens per second, those of the day 32.2k. For decode the requests in a GPU are
given, so that the two compare. The profiles are of full nodes with balanced routing.

The second table is the fleet for the day's 608 billion input and 168 billion output tokens: first by the rates above,
in the published layouts, then as `planner plan examples/deepseek-v3-h800.yaml` answers, in layouts of its own choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from planner.catalog import catalog
from planner.evidence.e2e_keys import shipped_known
from planner.evidence.run_reading import architecture_name
from planner.layout.layouts import Layouts
from planner.roofline.step import StepWork, step_times
from planner.scenario.load import load_scenario
from planner.search.certainty import extra_spread, interval_of
from planner.search.planning import plan
from planner.search.setup import Hardware, Setup, setup

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "measured" / "published" / "e2e_deepseek.yaml"
SCENARIO = ROOT / "examples" / "deepseek-v3-h800.yaml"
USERS_TOKENS_PER_S = 21.0
"""Middle of the published 20 to 22 output tokens per second and user."""
INPUT_TOKENS, OUTPUT_TOKENS = 608e9, 168e9
"""Of the day, cache hits counted."""
OUTPUT_PER_REQUEST = 1211
"""Follows from the means that are published; examples/deepseek-v3-h800.yaml derives it."""
PROFILE_TOKENS = 16_384
"""Prompt tokens per GPU and step of the published prefill profile; day 6 gives none, so it is taken there too."""


@dataclass(frozen=True)
class Row:
    """One published rate and its prediction, tokens per second and node of 8 GPUs."""

    name: str
    published: float
    predicted: float
    low80: float
    high80: float
    step_ms: float
    """Predicted time of the step behind the rate."""
    full: bool
    """Whether the published figure is of full nodes; else it is a mean over a day."""

    @property
    def inside(self) -> bool:
        return self.low80 <= self.published <= self.high80


def rows() -> list[Row]:
    """All comparisons."""
    entries = yaml.load(PUBLISHED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    known = {entry["id"]: entry["metrics"] for entry in entries}
    s = setup(load_scenario(SCENARIO), catalog())
    hw = s.hardware(s.scenario.hardware.candidates[0])
    even = replace(hw, ctx=replace(hw.ctx, expert_skew=0.0))  # the profiles simulate balanced routing
    day_in, day_out = known["ds_day6_prefill"], known["ds_day6_decode"]
    profile_in, profile_out = known["ds_profile_prefill"], known["ds_profile_decode"]
    hits = s.traffic.prefix_hit_rate
    new, cached = float(s.traffic.new_tokens), float(s.traffic.cached_tokens)
    in_flight = day_out["output_tok_per_s_per_gpu_derived"] / USERS_TOKENS_PER_S
    kv = float(day_out["mean_kv_len_per_output_token"])
    return [
        _row(
            "day 6 prefill, EP32 on 4 nodes, cache hits counted",
            day_in["input_tok_per_s_per_node_incl_cache_hits"],
            *_prefill(s, hw, 32, 32, new, cached),
            scale=1.0 / (1.0 - float(hits)),
            full=False,
        ),
        _row(
            "day 6 prefill, computed tokens only",
            day_in["input_tok_per_s_per_node_excl_hits_derived"],
            *_prefill(s, hw, 32, 32, new, cached),
            full=False,
        ),
        _row(
            f"day 6 decode, EP144 on 18 nodes, {in_flight:.0f} requests a GPU",
            day_out["output_tok_per_s_per_node"],
            *_decode(s, hw, 144, 32, in_flight, kv),
            full=False,
        ),
        _row(
            "profile prefill, EP32, 4 prompts of 4,096 a GPU",
            profile_in["input_tok_per_s_per_node_third_party"],
            *_prefill(s, even, 32, 32, 4096.0, 0.0),
            full=True,
        ),
        _row(
            "profile decode, EP128, 128 requests of 4,096 a GPU",
            profile_out["output_tok_per_s_per_node_third_party"],
            *_decode(s, even, 128, 0, 128.0, 4096.0),
            full=True,
        ),
    ]


@dataclass(frozen=True)
class FleetRow:
    """Nodes or dollars of the fleet, published (of one pool: its tokens over the published rate) and predicted."""

    name: str
    published: float
    predicted: float
    low80: float
    high80: float


def fleet(found: list[Row]) -> list[FleetRow]:
    """The day's traffic over the rates of ``found``, and the plan of the example with its cost."""
    entries = yaml.load(PUBLISHED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    known = next(entry["metrics"] for entry in entries if entry["id"] == "ds_day6_fleet")
    mean_nodes = float(known["mean_nodes"])
    best = plan(load_scenario(SCENARIO)).candidates[0]
    assert best.usd_per_hour is not None
    assert best.nodes is not None
    assert best.throughput_rps is not None
    output = best.throughput_rps * OUTPUT_PER_REQUEST
    pools = [
        _nodes("prefill", found, output * INPUT_TOKENS / OUTPUT_TOKENS),
        _nodes("decode", found, output),
    ]
    assert best.usd_per_mtok.output is not None
    sums = (sum(getattr(pool, part) for pool in pools) for part in ("predicted", "low80", "high80"))
    bounds = best.interval["usd_per_mtok"]
    low, high = (bound / best.usd_per_mtok.output for bound in (bounds.low80, bounds.high80))
    planned = float(best.nodes)
    cost = 24.0 * best.usd_per_hour
    return [
        *pools,
        FleetRow("nodes, published layouts", mean_nodes, *sums),
        FleetRow("nodes of the plan", mean_nodes, planned, planned * low, planned * high),
        FleetRow("USD a day of the plan", float(known["daily_cost_usd"]), cost, cost * low, cost * high),
    ]


def _nodes(pool: str, found: list[Row], tokens_per_s: float) -> FleetRow:
    row = next(r for r in found if r.name.startswith(f"day 6 {pool}"))
    rates = (row.published, row.predicted, row.high80, row.low80)
    return FleetRow(f"{pool} nodes, published layout", *(tokens_per_s / rate for rate in rates))


Interval = Callable[[float], tuple[float, float]]


def _prefill(
    s: Setup, hw: Hardware, ep: int, redundant: int, new: float, cached: float
) -> tuple[float, float, Interval]:
    """(tokens per second and GPU, seconds of the step, interval) with every rank full of prompts."""
    layout = Layouts.of(tp=1, attention_dp=ep, moe_tp=1, ep=ep, redundant_experts=redundant)
    tokens = np.array([float(PROFILE_TOKENS)])
    zero = np.zeros(1)
    work = StepWork(zero, zero, tokens, tokens / new, np.array([cached]), tokens * ep)
    seconds = _seconds(hw, layout, work)
    return PROFILE_TOKENS / seconds, seconds, _interval(s, hw)


def _decode(
    s: Setup, hw: Hardware, ep: int, redundant: int, per_gpu: float, kv: float
) -> tuple[float, float, Interval]:
    """(tokens per second and GPU, seconds of the step, interval) with ``per_gpu`` requests on every rank."""
    layout = Layouts.of(tp=1, attention_dp=ep, moe_tp=1, ep=ep, redundant_experts=redundant)
    seconds = _seconds(hw, layout, StepWork(np.array([per_gpu]), np.array([kv])))
    return per_gpu / seconds, seconds, _interval(s, hw)


def _seconds(hw: Hardware, layout: Layouts, work: StepWork) -> float:
    yes = np.ones(1, dtype=bool)
    return float(step_times(hw.ctx, layout, work, two_batch=yes, deepep=yes).total[0])


def _interval(s: Setup, hw: Hardware) -> Interval:
    name = architecture_name(str(s.spec.hf_id))
    kind = shipped_known().distance(name, hw.accelerator.id, s.scenario.engine.name, "")

    def bounds(rate: float) -> tuple[float, float]:
        found = interval_of(kind, "throughput", rate, extra_spread([hw]))
        return found.low80, found.high80

    return bounds


def _row(
    name: str, published: float, per_gpu: float, seconds: float, interval: Interval, *, full: bool, scale: float = 1.0
) -> Row:
    rate = per_gpu * 8 * scale
    low, high = interval(rate)
    return Row(name, float(published), rate, low, high, seconds * 1e3, full)


REASONS = """
Published are 226.75 nodes on average and 278 at the day's peak. Why the plan is smaller: prefill nodes count as full,
where the day's were half full against DeepSeek's own profile (decode comes out as published); the plan carries the
mean rate, DeepSeek's fleet follows the day and keeps room for its peak; only mean lengths are published, so that all
requests are alike here; cached prompts cost no read from storage; and the limit on TTFT is chosen, none is published.
"""


def main() -> None:
    print("| tokens/s per H800 node | published | predicted | 80 % interval | published inside | step ms |")
    print("|---|---|---|---|---|---|")
    found = rows()
    for r in found:
        inside = "yes" if r.inside else "no"
        where = f"{r.low80:,.0f} to {r.high80:,.0f}"
        print(f"| {r.name} | {r.published:,.0f} | {r.predicted:,.0f} | {where} | {inside} | {r.step_ms:,.1f} |")
    print("\n| fleet for the day | published | predicted | 80 % interval |")
    print("|---|---|---|---|")
    for f in fleet(found):
        print(f"| {f.name} | {f.published:,.0f} | {f.predicted:,.0f} | {f.low80:,.0f} to {f.high80:,.0f} |")
    print(REASONS)


if __name__ == "__main__":
    main()
