"""What a replay measured: times of each request, gaps between tokens, rates, and their summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.replay.ledger import Ledger
from planner.replay.settings import Limits, Rules, counted_range
from planner.replay.trace import Trace
from planner.units import MILLISECOND

if TYPE_CHECKING:
    from planner.replay.worker import Worker

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
MIDDLE = (0.1, 0.9)
"""Part of the counted requests, by time of leaving, that throughput is measured over."""
DIGITS = 6
"""Significant digits of what is printed."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """Requests in order of the trace, arrays (n,); seconds and tokens."""

    arrival_s: Array
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    ttft_s: Array
    """NaN for a rejected request; so in the next two."""
    tpot_s: Array
    """Mean gap of the request's tokens after the first; NaN for one token."""
    e2e_s: Array
    good: BoolArray
    """Completed within every limit; none where a limit on a mean is missed."""
    rejected: BoolArray
    restarts: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    counted: BoolArray
    """Requests that statistics are over: all but those of the warm-up and the end."""
    gap_s: Array
    """Gaps between tokens with ``gap_tokens`` of each, not by request."""
    gap_tokens: Array
    busy_share: float
    """Mean part of the time in which a worker runs a step."""
    prompt_share: float
    mean_decoding: float
    """Sequences that decode in a worker, mean over its decode steps."""
    mean_inside: float
    """Requests in the system, mean over time (counted by events, not from the times of requests)."""
    span_s: float
    tokens_out: int
    failures: int = 0

    @property
    def throughput_rps(self) -> float:
        """Rate at which the counted requests leave, over the middle of them by time of leaving.

        Their first and last ones are set apart because requests that entered together leave at different times. Where
        workers fail, those that were held up leave together afterwards: the rate is then that of all requests that
        leave while the counted ones arrive.
        """
        if self.failures and np.ptp(self.arrival_s[self.counted]) > 0:
            return self._leaving_rps(self.arrival_s[self.counted])
        leaving = np.sort((self.arrival_s + self.e2e_s)[self.counted & ~self.rejected])
        if leaving.size < 2:
            return float(leaving.size) / self.span_s
        first, last = (int(part * (leaving.size - 1)) for part in MIDDLE)
        return float(last - first) / max(float(leaving[last] - leaving[first]), 1e-12)

    def _leaving_rps(self, arriving: Array) -> float:
        first, last = float(arriving.min()), float(arriving.max())
        at = (self.arrival_s + self.e2e_s)[~self.rejected]
        return float(np.count_nonzero((at > first) & (at <= last))) / (last - first)

    @property
    def offered_rps(self) -> float:
        """Rate at which the counted requests arrive, over the same middle part of them; 0 where all arrive at once."""
        arriving = np.sort(self.arrival_s[self.counted])
        first, last = (int(part * (arriving.size - 1)) for part in MIDDLE)
        span = float(arriving[last] - arriving[first])
        return float(last - first) / span if span > 0 else 0.0

    @property
    def goodput_rps(self) -> float:
        """Completions within every limit per second: throughput times the good part of the counted requests served."""
        served = self.counted & ~self.rejected
        return self.throughput_rps * float(self.good[served].mean()) if served.any() else 0.0

    def summary(self) -> dict[str, Any]:
        """The keys of ``planner replay --json``: milliseconds, requests per second, shares."""
        served = self.counted & ~self.rejected
        throughput = self.throughput_rps
        tokens = float(self.output_tokens[served].mean()) if served.any() else 0.0
        return {
            "ttft_ms": spread(self.ttft_s[served]),
            "tbt_ms": spread(self.gap_s, self.gap_tokens),
            "tpot_ms": spread(self.tpot_s[served & (self.output_tokens > 1)]),
            "e2e_ms": spread(self.e2e_s[served]),
            "throughput_rps": digits(throughput),
            "goodput_rps": digits(self.goodput_rps),
            "completion_rate": digits(float((~self.rejected)[self.counted].mean())),
            "output_tokens_per_s": digits(throughput * tokens),
        }

    def occupancy(self) -> dict[str, float]:
        """How full the deployment was, for people and for the closed forms' own terms."""
        return {
            "busy_share": digits(self.busy_share),
            "prompt_share": digits(self.prompt_share),
            "mean_decoding_per_worker": digits(self.mean_decoding),
            "mean_requests_inside": digits(self.mean_inside),
            "cached_share_of_prompts": digits(float(self.cached_tokens.sum() / self.input_tokens.sum())),
            "restarts": int(self.restarts.sum()),
        }


def replayed(
    trace: Trace, ledger: Ledger, rules: Rules, workers: Sequence[Worker], area: float, end: float
) -> Replayed:
    """Collects what a finished replay left in the ledger and the workers."""
    arrival = np.array(ledger.arrival)
    rejected = np.array(ledger.rejected, dtype=bool)
    out = trace.output_tokens
    ttft = np.array(ledger.first) - arrival + rules.request_s
    e2e = np.array(ledger.finish) - arrival + rules.request_s
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(out > 1, (e2e - ttft) / (out - 1), np.nan)
    for column in (ttft, e2e, tpot):
        column[rejected] = np.nan
    window = slice(*ledger.gap_window)
    values, counts = _token_gaps(np.array(ledger.gap_s[window]), np.array(ledger.gap_count[window]), rules)
    span = max(end - float(arrival.min()), 1e-12)
    share = 1.0 / (span * len(workers))
    counted = _counted(arrival, rules)
    served = counted & ~rejected
    means = {"ttft": ttft[served], "tpot": tpot[served & (out > 1)], "e2e": e2e[served]}
    mean_s = {name: float(v.mean()) if v.size else 0.0 for name, v in means.items()}
    mean_s["tbt"] = float(np.average(values, weights=counts)) if values.size else 0.0
    kept = all(mean_s[metric] <= limit for metric, limit in rules.limits.means)
    decode_s = sum(w.busy_s - (0.0 if w.kind.scheduler.mixed else w.prompt_s) for w in workers if not w.prefill_only)
    return Replayed(
        arrival_s=arrival,
        input_tokens=trace.input_tokens,
        output_tokens=out,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
        good=kept & ~rejected & _within(rules.limits, ttft, tpot, e2e, out, ledger),
        rejected=rejected,
        restarts=np.array(ledger.restarts, dtype=np.int64),
        cached_tokens=np.array(ledger.cached, dtype=np.int64),
        counted=counted,
        gap_s=values,
        gap_tokens=counts,
        busy_share=sum(w.busy_s for w in workers) * share,
        prompt_share=sum(w.prompt_s for w in workers) * share,
        mean_decoding=sum(w.sequence_s for w in workers) / max(decode_s, 1e-12),
        mean_inside=area / span,
        span_s=span,
        tokens_out=sum(ledger.generated),
        failures=len(rules.failures),
    )


def _token_gaps(steps_s: Array, count: Array, rules: Rules) -> tuple[Array, Array]:
    """Gaps of tokens from gaps of steps: j tokens of one step come 1/j of the step apart."""
    if not rules.speculation.acceptance:
        return steps_s, count
    parts = [(steps_s / j, count * (p * j)) for j, p in rules.speculation.distribution if p > 0]
    return np.concatenate([v for v, _ in parts]), np.concatenate([c for _, c in parts])


def _counted(arrival: Array, rules: Rules) -> BoolArray:
    inside = np.zeros(arrival.size, dtype=bool)
    inside[np.argsort(arrival, kind="stable")[slice(*counted_range(arrival.size, rules))]] = True
    return inside


def _within(limits: Limits, ttft: Array, tpot: Array, e2e: Array, out: NDArray[np.int64], ledger: Ledger) -> BoolArray:
    good = np.ones(ttft.size, dtype=bool)
    if limits.ttft_s is not None:
        good &= ttft <= limits.ttft_s
    if limits.tpot_s is not None:
        good &= (out < 2) | (tpot <= limits.tpot_s)
    if limits.e2e_s is not None:
        good &= e2e <= limits.e2e_s
    for (_, share), over in zip(limits.tbt_s, ledger.over, strict=True):
        good &= np.array(over) <= (1.0 - share) * np.maximum(out - 1, 0) + 1e-9
    return good


def spread(values: Array, weights: ArrayLike | None = None) -> dict[str, float | None]:
    """Mean and percentiles in milliseconds of seconds, None where there is nothing.

    The p-th percentile is the smallest value that at least p of the weight does not exceed.
    """
    names = ["mean", *(name for name, _ in PERCENTILES)]
    if not values.size:
        return dict.fromkeys(names)
    w = np.ones_like(values) if weights is None else np.asarray(weights, dtype=float)
    order = np.argsort(values, kind="stable")
    sorted_, total = values[order], np.cumsum(w[order])
    at = np.searchsorted(total, [p * total[-1] * (1.0 - 1e-12) for _, p in PERCENTILES])
    found = [float(np.average(values, weights=w)), *sorted_[np.minimum(at, values.size - 1)].tolist()]
    return {name: digits(v / MILLISECOND) for name, v in zip(names, found, strict=True)}


def digits(value: float) -> float:
    """``value`` with DIGITS significant digits: enough for any comparison, and the same on every machine."""
    return float(f"{value:.{DIGITS}g}")
