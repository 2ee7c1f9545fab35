"""One benchmark run in the normal form that every tool's report is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

METRICS = ("ttft", "tpot", "itl", "e2e")
"""Time to first token, mean time per output token after it, gap between tokens, whole request."""


@dataclass(frozen=True)
class Latency:
    """Statistics of one latency over the requests of a run, in seconds."""

    mean_s: float | None = None
    std_s: float | None = None
    percentiles_s: Mapping[float, float] = field(default_factory=dict)
    """By percentile, 0 to 100."""

    @property
    def typical_s(self) -> float | None:
        """The mean, else the median, else None."""
        return self.mean_s if self.mean_s is not None else self.percentiles_s.get(50.0)

    def scaled(self, factor: float) -> Latency:
        """All statistics times ``factor``."""
        return Latency(
            None if self.mean_s is None else self.mean_s * factor,
            None if self.std_s is None else self.std_s * factor,
            {p: v * factor for p, v in self.percentiles_s.items()},
        )

    def values(self) -> list[float]:
        """Mean and percentiles that are known."""
        return [*([] if self.mean_s is None else [self.mean_s]), *self.percentiles_s.values()]


@dataclass(frozen=True)
class BenchRecord:
    """What a report says about one run; None where it says nothing. Token counts are means over requests."""

    format: str
    where: str
    """Place in the file, for messages."""
    model: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    engine: str | None = None
    engine_version: str | None = None
    precision: str | None = None
    moe_precision: str | None = None
    """Of the experts, where it is stated apart from the other weights'."""
    kv_precision: str | None = None
    """Of the KV cache, fp8 or bf16, where a table says so."""
    bench: str | None = None
    """Kind of benchmark, as measured/e2e_runs.csv names it, where a table says so."""
    serving: str = "agg"
    layout: Mapping[str, int] = field(default_factory=dict)
    """Columns of measured/e2e_runs.csv: tp, pp, attention_dp, moe_tp, ep, or prefill_* and decode_*."""
    speculative: str | None = None
    """none or on."""
    scenario: str | None = None
    """The tool's name for a load that is not plain prompts of given lengths."""
    input_tokens: float | None = None
    output_tokens: float | None = None
    requested_output_tokens: float | None = None
    """The limit or target the client asked for."""
    concurrency: float | None = None
    """Requests that the client keeps in flight."""
    mean_concurrency: float | None = None
    """Requests in flight as the client measured them."""
    rate_rps: float | None = None
    """Offered rate; infinite where all requests are sent at once."""
    requests: int | None = None
    completed: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    streaming: bool | None = None
    latency: Mapping[str, Latency] = field(default_factory=dict)
    request_rps: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    cache_hit_rate: float | None = None
    warnings: tuple[str, ...] = ()
    refused: str = ""
    """Why the run is no evidence; empty where it is."""

    def seconds(self, metric: str) -> float | None:
        """Mean (else median) of a latency."""
        found = self.latency.get(metric)
        return None if found is None else found.typical_s

    @property
    def request_s(self) -> float | None:
        """Time of a whole request: measured, else first token plus the others."""
        e2e, ttft, tpot = (self.seconds(m) for m in ("e2e", "ttft", "tpot"))
        if e2e is not None or ttft is None or tpot is None or self.output_tokens is None:
            return e2e
        return ttft + tpot * max(self.output_tokens - 1.0, 0.0)

    @property
    def closed_loop(self) -> bool:
        """Whether the client keeps a number of requests in flight instead of following a rate."""
        return self.concurrency is not None and (self.rate_rps is None or self.rate_rps == float("inf"))

    def warn(self, text: str) -> BenchRecord:
        """The record with one more warning."""
        return replace(self, warnings=(*self.warnings, text))

    def without(self, *metrics: str) -> BenchRecord:
        """The record without some latencies."""
        return replace(self, latency={m: v for m, v in self.latency.items() if m not in metrics})
