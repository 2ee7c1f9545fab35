"""Imported records as end-to-end runs: what a report lacks comes from the caller, what is missing is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.catalog import Catalog
from planner.catalog.model_spec import MoeFeedForward
from planner.errors import InputError, UnknownNameError
from planner.evidence.importers.names import gpu_id, precision_word
from planner.evidence.importers.record import BenchRecord
from planner.evidence.run_terms import architecture_name
from planner.evidence.runs import Runs, runs_from_rows
from planner.units import MILLISECOND

REUSE_LIMIT = 0.05
"""Above this share of prompt tokens found in a prefix cache, a run is not one of whole prompts."""


@dataclass(frozen=True)
class Given:
    """Facts from outside the file; they hold for every record and win over what the file says."""

    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    precision: str | None = None
    speculative: str | None = None
    concurrency: float | None = None
    tp: int | None = None
    pp: int | None = None
    attention_dp: int | None = None
    moe_tp: int | None = None
    ep: int | None = None

    def layout(self) -> dict[str, int]:
        """The layout the caller states, complete; empty without ``tp`` and ``attention_dp``."""
        if self.tp is None and self.attention_dp is None:
            return {}
        tp, dp, ep = self.tp or 1, self.attention_dp or 1, self.ep or 1
        if self.moe_tp is None and tp * dp % ep:
            raise InputError("--ep", ep, f"a divisor of tp * attention_dp = {tp * dp}")
        return {
            "tp": tp,
            "pp": self.pp or 1,
            "attention_dp": dp,
            "moe_tp": self.moe_tp or tp * dp // ep,
            "ep": ep,
        }


@dataclass(frozen=True)
class Converted:
    """Runs that can be compared, and for every record its position among them or the reason it is not there."""

    runs: Runs
    positions: tuple[int | None, ...]
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...]


def to_runs(records: Sequence[BenchRecord], given: Given, catalog: Catalog) -> Converted:
    """Records as runs; one whose own words mean nothing is left out with the reason.

    Raises InputError naming every fact that the file lacks and the options do not supply, and for an option that means
    nothing.
    """
    _check_given(given, catalog)
    missing: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    positions: list[int | None] = []
    reasons: list[str] = []
    notes: dict[str, None] = {}
    moes = _experts(catalog)
    for record in records:
        reason = record.refused or _not_comparable(record)
        row = None
        if not reason:
            try:
                row = _row(record, given, catalog, moes, missing, notes)
            except InputError as error:
                reason = str(error)
        positions.append(None if row is None else len(rows))
        reasons.append(reason)
        if row is not None:
            rows.append(row)
    if missing:
        options = ", ".join(f"{fact} ({option})" for fact, option in missing.items())
        raise InputError("file", records[0].format, f"does not state: {options}; give them as options")
    runs = runs_from_rows(rows)
    return Converted(runs, tuple(positions), tuple(reasons), (*notes, *runs.assumptions))


def _check_given(given: Given, catalog: Catalog) -> None:
    if given.gpu:
        gpu_id(given.gpu, catalog.accelerator_ids(), "--gpu")
    if given.precision:
        precision_word(given.precision, None)
    if given.engine and given.engine not in catalog.engine_names():
        raise UnknownNameError("--engine", given.engine, catalog.engine_names())
    given.layout()


def _not_comparable(r: BenchRecord) -> str:
    """Why a run that is evidence is not one that the closed loop of whole prompts describes."""
    if r.scenario:
        return f"load {r.scenario}: sessions that reuse their prefix are not runs of whole prompts"
    if (r.cache_hit_rate or 0.0) > REUSE_LIMIT:
        return f"{100 * (r.cache_hit_rate or 0.0):.0f} % of the prompt came from a prefix cache"
    if r.seconds("ttft") is None and r.seconds("tpot") is None and _speed(r) is None:
        if r.streaming is False:
            return "responses were not streamed: neither TTFT nor time per token was measured"
        return "neither TTFT nor time per token is left"
    if r.input_tokens is None or r.output_tokens is None:
        return "token counts are not stated"
    return ""


def _row(
    r: BenchRecord,
    given: Given,
    catalog: Catalog,
    moes: Mapping[str, bool],
    missing: dict[str, str],
    notes: dict[str, None],
) -> dict[str, Any]:
    text = {name: getattr(given, name) or getattr(r, name) for name in ("model", "gpu", "engine")}
    for name, value in text.items():
        if value is None:
            missing[name] = f"--{name}"
        elif getattr(r, name) not in (None, value):
            notes[f"{name} {value} in place of the file's {getattr(r, name)}"] = None
    layout = given.layout() or dict(r.layout)
    if r.serving == "disagg" and given.layout():
        raise InputError(
            "layout", "--tp, --ep ...", "a CSV with both pools: prefill and decode have workers of their own"
        )
    if not layout:
        missing["layout"] = "--tp, --pp, --attention-dp, --ep" if r.serving == "agg" else "a CSV with both pools"
    flight, note = _flight(r, given)
    if flight is None:
        missing["concurrency"] = "--concurrency"
    if note:
        notes[note] = None
    speculative = given.speculative or r.speculative
    if speculative is None:
        speculative = "none"
        notes["speculative decoding taken as off: the file does not say"] = None
    model = text["model"]
    word = precision_word(given.precision or r.precision, model)
    moe = moes.get(architecture_name(model), False) if model else False
    seconds = {m: r.seconds(m) for m in ("ttft", "tpot")}
    speed = _speed(r)
    if speed:
        notes["throughput of a whole run holds its start and end, when fewer requests were in flight"] = None
    if not r.closed_loop and given.concurrency is None:
        seconds["ttft"] = None
        notes[f"{_arrival(r.rate_rps)}: TTFT is not compared with that of a closed loop"] = None
    return {
        "run_id": r.where,
        "model": model,
        "gpu": gpu_id(text["gpu"], catalog.accelerator_ids(), "gpu") if text["gpu"] else None,
        "engine": text["engine"],
        "engine_version": given.engine_version or r.engine_version,
        "bench": r.bench or "user",
        "serving": r.serving,
        **_precisions(r, given, word, moe),
        "kv_precision": r.kv_precision,
        "speculative": speculative if speculative == "none" else "unknown",
        "input_tokens": r.input_tokens,
        "output_tokens": r.output_tokens,
        "concurrency": flight,
        **layout,
        **{f"{m}_ms": None if s is None else s / MILLISECOND for m, s in seconds.items()},
        "output_tokens_per_s": speed,
    }


def _arrival(rate_rps: float | None) -> str:
    """How the requests of a run came that no number in flight bounded."""
    if rate_rps is None:
        return "the file does not say how many requests were kept in flight"
    return "all requests came at once" if rate_rps == float("inf") else "requests came at a rate"


def _speed(r: BenchRecord) -> float | None:
    """Output tokens per second of a closed loop; at a given rate they say how many asked, not how fast it was."""
    return r.output_tokens_per_s or None if r.closed_loop else None


def _precisions(r: BenchRecord, given: Given, word: str, moe: bool) -> dict[str, str]:
    """Precision columns: one word holds for both kinds of weights, but 4-bit experts leave the others as they are."""
    if r.moe_precision and given.precision is None:
        return {"linear_precision": word, "moe_precision": precision_word(r.moe_precision, None)}
    return {"linear_precision": "" if word in ("mxfp4", "int4") and moe else word, "moe_precision": word if moe else ""}


def _flight(r: BenchRecord, given: Given) -> tuple[float | None, str]:
    """Requests in flight: as told, as the client kept them, as it measured them, or by Little's law."""
    if given.concurrency is not None:
        return given.concurrency, ""
    if r.closed_loop and r.concurrency is not None:
        most = r.concurrency if r.completed is None else min(r.concurrency, float(r.completed))
        return max(round(most), 1.0), ""
    if r.mean_concurrency:
        return max(r.mean_concurrency, 1.0), "concurrency as the client measured it, on average"
    if r.request_s and r.request_rps:
        return max(r.request_s * r.request_rps, 1.0), "concurrency from rate and request time (Little's law)"
    return r.concurrency, ""


def _experts(catalog: Catalog) -> dict[str, bool]:
    """Whether the models of the catalogue have experts, by architecture name."""
    found: dict[str, bool] = {}
    for model_id in catalog.model_ids():
        spec = catalog.model(model_id)
        moe = any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values())
        found |= {architecture_name(spec.hf_id or spec.id): moe, architecture_name(spec.id): moe}
    return found
