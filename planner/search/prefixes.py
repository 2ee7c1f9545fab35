"""Prefix cache of a deployment: the hit rate that its caches reach, and plans that are consistent with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.errors import InputError
from planner.model.kv import kv_bytes_per_token
from planner.scenario.schema import PrefixReuse, Scenario
from planner.search.plan_schema import Candidate, Layout, MemoryGib, PrefixCache
from planner.search.planned import Planned
from planner.search.setup import Setup
from planner.serving.prefix_cache import RoutedCache, by_affinity, spread_evenly, zipf
from planner.units import GIB

ROUNDS, NEAR = 5, 0.01
"""Plans that are made at most until the hit rate is within NEAR of what the best candidate's caches reach."""
MOST_HIT = 0.999


def with_hits(scenario: Scenario, reuse: PrefixReuse, ask: Callable[[Scenario], Planned]) -> Planned:
    """The plan with the highest hit rate that the caches of its best candidate reach, by bisection.

    More hits mean fewer prompt tokens to compute and fewer or fuller workers, and so less memory for the cache: a rate
    is within reach or not. The rate found stands in the plan's scenario. Raises InputError where prompts are shorter
    than their shared part.
    """
    mean = float(scenario.workload.input_tokens.mean())
    if reuse.tokens > mean:
        raise InputError("workload.prefix_reuse.tokens", reuse.tokens, f"at most {mean:,.0f}, the mean prompt")
    low, high = 0.0, min(reuse.tokens / mean, MOST_HIT)
    rate, reached = scenario.workload.prefix_hit_rate or high, None
    for _ in range(ROUNDS):
        made = ask(with_rate(scenario, rate))
        best = made.plan.best
        if best is None:
            high, found_rate = rate, low
        else:
            found = prefix_cache(made.setup, best, reuse)
            found_rate = found.hit_rate
            if found_rate >= rate - NEAR:
                low, reached = max(rate, low), _with(made, best, found)
                if found_rate <= rate + NEAR:  # the caches give what the plan counts on
                    break
            else:
                high = rate
        if high - low < NEAR or low >= high:
            break
        rate = found_rate if low < found_rate < high else 0.5 * (low + high)
    if reached is None:
        reached = ask(with_rate(scenario, low))
        best = reached.plan.best
        reached = reached if best is None else _with(reached, best, prefix_cache(reached.setup, best, reuse))
    return _which_holds(reached, scenario.workload.prefix_hit_rate)


def _which_holds(made: Planned, given: float) -> Planned:
    """Says so where a hit rate was given that the shared prefixes do not give."""
    answer = made.plan
    found = answer.scenario.workload.prefix_hit_rate
    if not given or abs(found - given) < NEAR:
        return made
    text = (
        f"prefix_hit_rate {given:.1%} is not used: prefix_reuse is given too, and the hit rate that follows from it "
        f"is {found:.1%}."
    )
    return made.with_plan(answer.model_copy(update={"assumptions": (*answer.assumptions, text)}))


def _with(made: Planned, best: Candidate, found: PrefixCache) -> Planned:
    sentence = (
        f"Prefix caches hold {found.hit_rate:.0%} of the prompt tokens; with requests to the worker that knows the "
        f"prefix they would hold {found.affinity_hit_rate:.0%}, to the least loaded one "
        f"{found.least_loaded_hit_rate:.0%}."
    )
    first = best.model_copy(update={"prefix_cache": found, "explanation": (*best.explanation, sentence)})
    return made.with_plan(made.plan.model_copy(update={"candidates": (first, *made.plan.candidates[1:])}))


def with_rate(scenario: Scenario, rate: float) -> Scenario:
    """The scenario with another prefix hit rate."""
    work = scenario.workload.model_copy(update={"prefix_hit_rate": float(np.clip(rate, 0.0, MOST_HIT))})
    return scenario.model_copy(update={"workload": work})


def prefix_cache(s: Setup, c: Candidate, reuse: PrefixReuse) -> PrefixCache:
    """What the caches of a candidate's (prefill) workers hold beside running requests, and how often that is hit.

    Each attention-DP rank has a cache of its own. Running requests hold their own tokens; what they leave (at least the
    share kept by the scenario) holds prefixes, least recently used out first (Che's approximation).
    """
    layout, memory, workers, held = _workers(s, c)
    caches = workers * layout.attention_dp
    token = float(np.asarray(kv_bytes_per_token(s.spec, s.precision.kv, layout.tp))) / layout.pp
    tokens = memory.kv * GIB / token
    hit_now = float(s.traffic.prefix_hit_rate)
    own = held * (float(s.traffic.mean_context) - hit_now * float(s.traffic.input_tokens))
    share = s.scenario.engine.options.prefix_cache_share or 0.0
    room = max(tokens - own, share * tokens)
    popularity = zipf(reuse.prefixes, reuse.zipf)
    spread = spread_evenly(popularity, caches, room / reuse.tokens)
    affine = by_affinity(popularity, caches, room / reuse.tokens)
    chosen: RoutedCache = affine if reuse.routing == "affinity" else spread
    part = reuse.tokens / float(s.traffic.input_tokens)
    needed = min(reuse.prefixes * (1.0 if reuse.routing == "least_loaded" else 1.0 / caches), room / reuse.tokens)
    return PrefixCache(
        routing=reuse.routing,
        hit_rate=min(chosen.hit_rate * part, MOST_HIT),
        request_hit_rate=chosen.hit_rate,
        tokens_per_rank=room,
        used_gib_per_rank=needed * reuse.tokens * token / GIB,
        imbalance=chosen.imbalance,
        least_loaded_hit_rate=spread.hit_rate * part,
        affinity_hit_rate=affine.hit_rate * part,
        affinity_imbalance=affine.imbalance,
    )


def _workers(s: Setup, c: Candidate) -> tuple[Layout, MemoryGib, int, float]:
    """Layout, memory, number of the workers that process prompts, and requests on one of their ranks."""
    pool = c.prefill_pool
    if pool is not None and pool.memory_gib is not None:
        return pool.layout, pool.memory_gib, pool.workers, 1.0
    return c.layout, c.memory_gib, c.replicas, (c.concurrency_per_worker or 0.0) / c.layout.attention_dp
