"""The scenario as a flat form and back: what the widgets show, and the scenario that their values make.

``fields`` turns a scenario into widget values; ``build`` puts changed values back into the scenario that they came
from, so that what the form does not show (priorities, histograms, further percentiles) is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.scenario.base import Schema
from planner.scenario.engine_schema import EngineOptions
from planner.scenario.load import scenario_from_data
from planner.scenario.schema import (
    LATENCY_METRICS,
    PERCENTILES,
    Hardware,
    PrecisionChoice,
    Reliability,
    Scenario,
)

Fields = dict[str, Any]
POOLS = {"nodes": "candidates", "prefill_nodes": "prefill", "decode_nodes": "decode"}
"""Field with a list of node types -> key of the scenario's hardware."""
LENGTHS = {"in": "input_tokens", "out": "output_tokens"}
OPTIONS = tuple(EngineOptions.model_fields)
CLASSES = tuple(PrecisionChoice.model_fields)
RECOVERY = tuple(name for name in Reliability.model_fields if name not in ("spare_nodes", "failures"))
DEFAULT_PERCENTILE = {"ttft_ms": "p95", "tbt_ms": "p99", "tpot_ms": "mean", "e2e_ms": "p95"}
REUSE = "prefix_reuse"
"""Whether the scenario's own reuse of prefixes is kept; the form does not change what it says."""
CHANGED = " (changed)"
"""End of the name of a scenario that is no longer the one it was loaded as; its description goes."""
_MOST_NAME = 200
_P95_OVER_MEAN = 2.0
"""Where a length turns lognormal without a known tail, its p95 starts at twice its mean."""


def fields(scenario: Scenario) -> Fields:
    """Widget values of ``scenario``; kinds that are not in use get values of the same mean."""
    out: Fields = {
        "model": scenario.model,
        "objective": scenario.objective,
        "serving": list(scenario.search.serving),
        "spare_nodes": scenario.reliability.spare_nodes,
        "failures": scenario.reliability.failures,
        "engine.name": scenario.engine.name,
        "engine.version": scenario.engine.version or "",
        "hit_percent": 100.0 * scenario.workload.prefix_hit_rate,
        REUSE: scenario.workload.prefix_reuse is not None,
        "completion_percent": _percent(scenario.slo.completion_rate),
    }
    out |= _hardware_fields(scenario.hardware)
    out |= _arrival_fields(scenario)
    for short, key in LENGTHS.items():
        out |= _length_fields(short, getattr(scenario.workload, key))
    for metric in LATENCY_METRICS:
        percentile, limit = _shown_limit(scenario, metric)
        out[f"slo.{metric}.percentile"], out[f"slo.{metric}.limit"] = percentile, limit
    out |= {f"precision.{c}": getattr(scenario.precision, c) for c in CLASSES}
    out |= {f"option.{o}": getattr(scenario.engine.options, o) for o in OPTIONS}
    out |= {f"reliability.{name}": getattr(scenario.reliability, name) for name in RECOVERY}
    out |= {f"price.{k}": v for k, v in scenario.economics.usd_per_gpu_hour.items()}
    return out


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100.0 * fraction


def _hardware_fields(hardware: Hardware) -> Fields:
    pools = hardware.pools
    out: Fields = {
        "nodes": [c.node for c in hardware.candidates],
        "pools": pools is not None,
        "prefill_nodes": [c.node for c in pools.prefill] if pools else [],
        "decode_nodes": [c.node for c in pools.decode] if pools else [],
        "max_gpus_per_worker": hardware.max_gpus_per_worker,
    }
    for c in hardware.candidates:
        out[f"max_nodes.{c.node}"] = c.max_nodes
        out[f"gpus.{c.node}"] = c.gpus
    return out


def _arrival_fields(scenario: Scenario) -> Fields:
    arrival = scenario.workload.arrival
    return {
        "arrival.kind": arrival.kind,
        "arrival.concurrency": getattr(arrival, "concurrency", 64),
        "arrival.rate": arrival.rate() or 1.0,
        "arrival.cv": arrival.gap_cv() or 1.0,
        "day.peak_to_mean": _peak_to_mean(scenario),
    }


def _peak_to_mean(scenario: Scenario) -> float | None:
    profile = scenario.workload.daily_profile
    if profile is None or profile.hourly is None:
        return None if profile is None else profile.peak_to_mean
    return float(f"{1.0 / profile.mean_over_peak:.6g}")


def _length_fields(short: str, length: Any) -> Fields:
    mean = length.mean()
    p95 = float(length.p95_tokens) if length.kind == "lognormal" else _P95_OVER_MEAN * mean
    uniform = length.kind == "uniform"
    return {
        f"{short}.kind": length.kind,
        f"{short}.tokens": max(round(mean), 1),
        f"{short}.min": length.min_tokens if uniform else max(round(mean / 2), 1),
        f"{short}.max": length.max_tokens if uniform else max(round(1.5 * mean), 1),
        f"{short}.mean": float(mean),
        f"{short}.p95": p95,
    }


def _shown_limit(scenario: Scenario, metric: str) -> tuple[str, float | None]:
    """The percentile and limit that the form shows of a metric: the first that the scenario names."""
    given = getattr(scenario.slo, metric)
    if given is None:
        return DEFAULT_PERCENTILE[metric], None
    percentile, limit = next(iter(given.given().items()))
    return percentile, limit


def further_limits(scenario: Scenario, metric: str) -> dict[str, float]:
    """Limits of a metric beyond the one that the form shows (percentile -> ms)."""
    given = getattr(scenario.slo, metric)
    return dict(list(given.given().items())[1:]) if given is not None else {}


def build(base: Scenario, values: Mapping[str, Any], specs: Mapping[str, Any] | None = None) -> Scenario:
    """``base`` with ``values`` (as :func:`fields` names them; absent ones keep what ``base`` says) put in.

    ``specs`` holds specifications of models that are not in the catalogue, by id (pasted configurations). Raises
    InputError with the dotted field, what was given and what is allowed. A changed scenario is called so, and does not
    keep a description that is of another one.
    """
    data = base.to_dict()
    unchanged = fields(base)
    changed = {k: v for k, v in values.items() if k not in unchanged or unchanged[k] != v}
    if not changed:
        return base
    _put_simple(data, changed)
    if "model" in changed:
        data.pop("model_spec", None)
        spec = (specs or {}).get(changed["model"])
        if spec is not None:
            data["model_spec"] = spec.model_dump(mode="json", exclude_none=True)
    _put_hardware(data, base, changed)
    workload = data["workload"]
    for short, key in LENGTHS.items():
        if any(k.startswith(f"{short}.") for k in changed):
            workload[key] = _length(short, {**unchanged, **changed}, workload[key])
    if any(k.startswith("arrival.") for k in changed):
        workload["arrival"] = _arrival({**unchanged, **changed}, workload["arrival"])
    _put_day(workload, changed)
    _put_slo(data, base, changed)
    _put_group(data, "precision", changed, "precision.")
    _put_group(data["engine"], "options", changed, "option.")
    _put_group(data.setdefault("economics", {}), "usd_per_gpu_hour", changed, "price.")
    _put_group(data, "reliability", changed, "reliability.")
    made = scenario_from_data(data)
    if made == base:
        return base
    return made.model_copy(update={"name": changed_name(base.name), "description": None})


def changed_name(name: str) -> str:
    """``name`` with :data:`CHANGED` at its end, once, within what a name may be long."""
    return name if name.endswith(CHANGED) else name[: _MOST_NAME - len(CHANGED)] + CHANGED


def _put_simple(data: dict[str, Any], changed: Fields) -> None:
    for key in ("model", "objective"):
        if key in changed:
            data[key] = changed[key]
    if "serving" in changed:
        if not changed["serving"]:
            raise InputError("search.serving", [], "choose aggregated, disaggregated, or both")
        data.setdefault("search", {})["serving"] = list(changed["serving"])
    if "spare_nodes" in changed:
        data.setdefault("reliability", {})["spare_nodes"] = changed["spare_nodes"] or 0
    if "failures" in changed:
        failures = changed["failures"]
        data.setdefault("reliability", {})["failures"] = 1 if failures is None else failures
    if "engine.name" in changed:
        data["engine"]["name"] = changed["engine.name"]
        data["engine"].pop("version", None)
    if "engine.version" in changed:
        _set(data["engine"], "version", changed["engine.version"].strip() or None)
    if changed.get(REUSE) is False:
        data["workload"].pop("prefix_reuse", None)
    if "hit_percent" in changed:
        percent = changed["hit_percent"] or 0.0
        if not 0.0 <= percent < 100.0:
            raise InputError("workload.prefix_hit_rate", percent, "from 0 to less than 100 %")
        data["workload"]["prefix_hit_rate"] = percent / 100.0


def _put_hardware(data: dict[str, Any], base: Scenario, changed: Fields) -> None:
    hardware = data["hardware"]
    counts = {
        key: {k.removeprefix(f"{key}."): v for k, v in changed.items() if k.startswith(f"{key}.")}
        for key in ("max_nodes", "gpus")
    }
    if "nodes" in changed or any(counts.values()):
        names = changed.get("nodes", [c.node for c in base.hardware.candidates])
        hardware["candidates"] = _choices(names, base.hardware.candidates, counts)
    if "max_gpus_per_worker" in changed:
        _set(hardware, "max_gpus_per_worker", changed["max_gpus_per_worker"])
    pools = base.hardware.pools
    if not changed.get("pools", pools is not None):
        hardware.pop("pools", None)
    elif "pools" in changed or "prefill_nodes" in changed or "decode_nodes" in changed:
        both = [c.node for c in base.hardware.candidates]
        hardware["pools"] = {
            side: _choices(
                changed.get(f"{side}_nodes") or [c.node for c in getattr(pools, side, ())] or both,
                getattr(pools, side, ()),
                {},
            )
            for side in ("prefill", "decode")
        }
    if not hardware.get("candidates") and not hardware.get("pools"):
        raise InputError("hardware.candidates", [], "choose at least one node type")


def _choices(names: list[str], known: tuple[Schema, ...], counts: Mapping[str, Mapping[str, int | None]]) -> list[Any]:
    by_node = {c.node: c.to_dict() for c in known}  # type: ignore[attr-defined]
    out = []
    for name in names:
        choice = dict(by_node.get(name, {"node": name}))
        for key, given in counts.items():
            if name in given:
                _set(choice, key, given[name])
        out.append(choice)
    return out


def _length(short: str, values: Fields, before: dict[str, Any]) -> dict[str, Any]:
    kind = values[f"{short}.kind"]
    if kind == "fixed":
        return {"kind": kind, "tokens": values[f"{short}.tokens"]}
    if kind == "uniform":
        return {"kind": kind, "min_tokens": values[f"{short}.min"], "max_tokens": values[f"{short}.max"]}
    if kind == "lognormal":
        return {
            "kind": kind,
            "mean_tokens": float(values[f"{short}.mean"]),
            "p95_tokens": float(values[f"{short}.p95"]),
        }
    return before


def _arrival(values: Fields, before: dict[str, Any]) -> dict[str, Any]:
    kind = values["arrival.kind"]
    if kind == "closed_loop":
        return {"kind": kind, "concurrency": values["arrival.concurrency"]}
    if kind == "poisson":
        return {"kind": kind, "rate_rps": float(values["arrival.rate"])}
    if kind == "gamma":
        return {
            "kind": kind,
            "rate_rps": float(values["arrival.rate"]),
            "cv": float(values["arrival.cv"]),
        }
    return before


def _put_day(workload: dict[str, Any], changed: Fields) -> None:
    """A day has no meaning in a closed loop: the form shows no field for it there, and the profile goes."""
    if workload["arrival"]["kind"] == "closed_loop":
        workload.pop("daily_profile", None)
    elif "day.peak_to_mean" in changed:
        ratio = changed["day.peak_to_mean"]
        _set(workload, "daily_profile", None if ratio is None else {"peak_to_mean": float(ratio)})


def _put_slo(data: dict[str, Any], base: Scenario, changed: Fields) -> None:
    slo = data.setdefault("slo", {})
    for metric in LATENCY_METRICS:
        keys = (f"slo.{metric}.percentile", f"slo.{metric}.limit")
        if not any(k in changed for k in keys):
            continue
        shown, limit = _shown_limit(base, metric)
        percentile, limit = changed.get(keys[0], shown), changed.get(keys[1], limit)
        limits = {**further_limits(base, metric)}
        if limit is not None:
            limits[percentile] = float(limit)
        ordered = {p: limits[p] for p in PERCENTILES if p in limits}
        _set(slo, metric, ordered or None)
    if "completion_percent" in changed:
        percent = changed["completion_percent"]
        if percent is not None and not 0.0 < percent <= 100.0:
            raise InputError("slo.completion_rate", percent, "more than 0 and at most 100 %")
        _set(slo, "completion_rate", None if percent is None else percent / 100.0)


def _put_group(data: dict[str, Any], key: str, changed: Fields, prefix: str) -> None:
    new = {k.removeprefix(prefix): v for k, v in changed.items() if k.startswith(prefix)}
    if not new:
        return
    group = data.setdefault(key, {})
    for name, value in new.items():
        _set(group, name, value)


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        data.pop(key, None)
    else:
        data[key] = value
