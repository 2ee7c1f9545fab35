"""What makes a report misleading, found by comparing its own figures: each finding is a warning in words, a figure
that is left out, or the refusal of the whole run. Nothing is corrected without a warning that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from planner.evidence.importers.record import METRICS, BenchRecord, Latency

FAILED_LIMIT = 0.5
"""A run that lost more than this share of its requests measured something else."""
SAME = 0.99
"""TTFT of this share of the request time or more is the request time."""
INFLATED = 1.03
"""Output counted beyond the limit that the client set, by more than tokenizers differ."""
UNIT_BAND = (400.0, 2500.0)
"""Factor between what the rate implies and what is written: a thousand, give or take ramp-up and tail."""
TPOT_RATIO = 1.5
"""Beyond this, time per token and request time contradict each other."""
OVERLOAD = 0.9
FEW_WAVES = 2.0
STEADY_REQUESTS = 5
FLAT_TTFT = 0.01


def examine(record: BenchRecord) -> BenchRecord:
    """The record with warnings, without figures that mean nothing, refused where it is no evidence at all."""
    for check in CHECKS:
        if record.refused:
            return record
        record = check(record)
    return record


def _served_something(r: BenchRecord) -> BenchRecord:
    """Tools end with exit code 0 and latencies of 0.0 when every request failed."""
    values = [v for latency in r.latency.values() for v in latency.values()]
    if r.completed == 0:
        return replace(r, refused="no request was served" + (f" ({r.failed} failed)" if r.failed else ""))
    if not values:
        return replace(r, refused="no latency is stated")
    if all(v == 0.0 for v in values):
        return replace(r, refused="all latencies are 0: no request was served")
    lost = (r.failed or 0) / r.requests if r.requests else 0.0
    if lost > FAILED_LIMIT:
        return replace(r, refused=f"{r.failed} of {r.requests} requests failed")
    return r.warn(f"{r.failed} of {r.requests} requests failed: only the others are measured") if lost > 0 else r


def _units(r: BenchRecord) -> BenchRecord:
    """Little's law between rate, request time and requests in flight tells seconds from milliseconds."""
    request_s, rate = r.request_s, r.request_rps
    flight = r.mean_concurrency or (r.concurrency if r.closed_loop else None)
    if not request_s or not rate or not flight:
        return r
    if r.completed is not None:
        flight = min(flight, float(r.completed))
    ratio = flight / (rate * request_s)
    low, high = UNIT_BAND
    for factor, given, meant in ((1000.0, "milliseconds", "seconds"), (0.001, "seconds", "milliseconds")):
        if low < ratio / factor * 1000.0 < high:
            scaled = {m: v.scaled(factor) for m, v in r.latency.items()}
            return replace(r, latency=scaled).warn(
                f"times written as {given} are {meant}: {rate:.3g} requests/s with {flight:.3g} in flight take "
                f"{flight / rate:.3g} s each; read as {meant}"
            )
    return r


def _streamed(r: BenchRecord) -> BenchRecord:
    """Without streaming the first token arrives with the last: TTFT is the request time and there is no TPOT."""
    ttft, e2e = r.seconds("ttft"), r.seconds("e2e")
    tokens = r.output_tokens
    same = ttft is not None and e2e is not None and e2e > 0 and ttft >= SAME * e2e and (tokens or 2.0) > 1.5
    between = [r.seconds(m) for m in ("tpot", "itl") if m in r.latency]
    none = bool(ttft) and bool(between) and all(s == 0.0 for s in between) and (tokens or 2.0) > 1.5
    if (r.streaming is False and "ttft" in r.latency) or same or none:
        why = "TTFT equals the request time" if same else "the time between tokens is 0 in a run of several tokens"
        why = "responses were not streamed" if r.streaming is False else why
        return r.without("ttft", "tpot", "itl").warn(f"{why}: its TTFT and time per token say nothing and are left out")
    return r


def _zeros(r: BenchRecord) -> BenchRecord:
    """A latency of exactly 0 beside others is one that was not measured."""
    zero = [m for m in METRICS if m in r.latency and r.seconds(m) == 0.0]
    return r.without(*zero).warn(f"{', '.join(zero)} of 0 left out: not measured") if zero else r


def _averages(r: BenchRecord) -> BenchRecord:
    """A mean that is missing beside its median: the median stands for it, which a tail makes too small."""
    bare = [m for m in ("ttft", "tpot") if (found := r.latency.get(m)) is not None and found.mean_s is None]
    bare = [m for m in bare if r.seconds(m) is not None]
    return r.warn(f"mean {' and '.join(bare)} not stated: the median is compared in its place") if bare else r


def _inflated(r: BenchRecord) -> BenchRecord:
    """Tokens counted from a stream's chunks can be several times those generated; the limit asked for is the truth."""
    counted, wanted = r.output_tokens, r.requested_output_tokens
    if not counted or not wanted or counted <= INFLATED * wanted:
        return r
    ttft, e2e = r.seconds("ttft"), r.seconds("e2e")
    times = dict(r.latency)
    for name in ("tpot", "itl"):
        times.pop(name, None)
    how = "time per token left out"
    if ttft is not None and e2e is not None and wanted > 1:
        times["tpot"] = Latency((e2e - ttft) / (wanted - 1.0))
        how = "time per token taken from the request time"
    speed = None if r.request_rps is None else r.request_rps * wanted
    return replace(r, output_tokens=wanted, latency=times, output_tokens_per_s=speed, total_tokens_per_s=None).warn(
        f"{counted:.0f} output tokens were counted where {wanted:.0f} were asked for: read as {wanted:.0f}, {how}"
    )


def _token_times(r: BenchRecord) -> BenchRecord:
    """Time per token against request time: chunks that are counted as tokens, or a first token that is counted in."""
    ttft, e2e, tpot, tokens = r.seconds("ttft"), r.seconds("e2e"), r.seconds("tpot"), r.output_tokens
    if ttft is None or e2e is None or not tpot or tokens is None or tokens <= 1.5 or e2e <= ttft:
        return r
    implied = (e2e - ttft) / (tokens - 1.0)
    if 1.0 / TPOT_RATIO <= tpot / implied <= TPOT_RATIO:
        return r
    return replace(r, latency={**r.latency, "tpot": Latency(implied)}).warn(
        f"time per token of {1e3 * tpot:.3g} ms contradicts request time, TTFT and {tokens:.0f} tokens "
        f"({1e3 * implied:.3g} ms): the latter is taken"
    )


def _load(r: BenchRecord) -> BenchRecord:
    """An offered rate beyond what is served, or too few requests for a steady state."""
    few = r.completed is not None and r.completed < STEADY_REQUESTS
    if r.rate_rps and r.rate_rps != float("inf") and r.request_rps and r.request_rps < OVERLOAD * r.rate_rps:
        if few:
            return r.warn(f"{r.completed} requests: no rate can be told from so few")
        r = r.warn(
            f"offered {r.rate_rps:.3g} requests/s, served {r.request_rps:.3g}: the queue grew, TTFT measures the "
            "length of the run"
        )
    if r.closed_loop and r.completed is not None and r.completed < FEW_WAVES * (r.concurrency or 0):
        r = r.warn(f"{r.completed} requests at concurrency {r.concurrency:.0f}: no steady state was reached")
    return r


def _flat(r: BenchRecord) -> BenchRecord:
    """First tokens that all take the same time under load come from a simulator, or left together."""
    found = r.latency.get("ttft")
    if found is None or not found.std_s or not found.mean_s or (r.mean_concurrency or r.concurrency or 0) < 8:
        return r
    if found.std_s < FLAT_TTFT * found.mean_s:
        return r.warn("TTFT hardly varies under load: a simulated server, or first tokens released together")
    return r


def _ordered(r: BenchRecord) -> BenchRecord:
    for name, latency in r.latency.items():
        values = [v for _, v in sorted(latency.percentiles_s.items())]
        if any(b < a for a, b in pairwise(values)):
            r = r.warn(f"percentiles of {name} are not in order")
    return r


CHECKS: tuple[Callable[[BenchRecord], BenchRecord], ...] = (
    _served_something,
    _units,
    _streamed,
    _zeros,
    _averages,
    _inflated,
    _token_times,
    _load,
    _flat,
    _ordered,
)
