"""Step times and closed-loop means of runs whose operators are already evaluated, under any coefficients.

The expensive half (operators, memory; :mod:`planner.evidence.run_terms`) is evaluated once with unit coefficients;
:func:`predict` puts coefficients on top, so that a fit and a validation share one path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.roofline.coefficients import COLUMNS, factor_key
from planner.roofline.step import launch_excess
from planner.serving.closed_loop import LoopTimes, aggregated, disaggregated

Array = NDArray[np.float64]

EXPERTS = [i for i, (family, _) in enumerate(COLUMNS) if family == "experts"]
LINEAR = [i for i, (family, _) in enumerate(COLUMNS) if family == "linear"]


@dataclass(frozen=True)
class PhaseTerms:
    """One kind of step of n runs: operator seconds by COLUMNS (n, F) at unit factors, and what host time multiplies."""

    operators: Array
    expert_stream: Array
    """What routed experts take at least (planner.roofline.step.StepTimes.expert_stream)."""
    linear_stream: Array
    """The same of linear layers."""
    other: Array
    layers: Array
    kernel_layers: Array
    """Layers counted by their small kernels (planner.roofline.step_ops.kernel_layers)."""
    moe_layers: Array
    stages: Array
    sequences: Array


@dataclass(frozen=True)
class RunTerms:
    """Predictable runs, arrays (n,): ``rows`` are their positions in the table."""

    rows: NDArray[np.int64]
    decode: PhaseTerms
    prefill: PhaseTerms
    wave: PhaseTerms
    """The full prefill steps of the first wave."""
    concurrency: Array
    slots: Array
    output_tokens: Array
    chunks: Array
    prompts_per_step: Array
    group_prompts: Array
    most_prompts: Array
    poll_steps: Array
    pause: NDArray[np.bool_]
    first_wave_share: Array
    disaggregated: NDArray[np.bool_]
    prefill_servers: Array
    transfer_s: Array
    curve_spread: Array
    """What operator curves from elsewhere add to an interval (planner.evidence.intervals.curve_spread)."""
    engine: tuple[str, ...]
    generation: tuple[str, ...]

    def take(self, mask: NDArray[np.bool_]) -> RunTerms:
        """The runs selected by a boolean mask of shape (n,)."""
        taken: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, PhaseTerms):
                taken[f.name] = PhaseTerms(*(getattr(value, g.name)[mask] for g in fields(PhaseTerms)))
            elif isinstance(value, tuple):
                taken[f.name] = tuple(np.array(value, dtype=object)[mask])
            else:
                taken[f.name] = value[mask]
        return RunTerms(**taken)


def concatenate(parts: Sequence[RunTerms]) -> RunTerms:
    if not parts:
        return _nothing()
    joined: dict[str, Any] = {}
    for f in fields(RunTerms):
        values = [getattr(p, f.name) for p in parts]
        if isinstance(values[0], PhaseTerms):
            joined[f.name] = PhaseTerms(
                *(np.concatenate([getattr(v, g.name) for v in values]) for g in fields(PhaseTerms))
            )
        elif isinstance(values[0], tuple):
            joined[f.name] = tuple(x for v in values for x in v)
        else:
            joined[f.name] = np.concatenate(values)
    return RunTerms(**joined)


def _nothing() -> RunTerms:
    """Terms of no run at all."""
    empty = np.zeros(0)
    phase = PhaseTerms(np.zeros((0, len(COLUMNS))), *(empty,) * (len(fields(PhaseTerms)) - 1))
    special: dict[str, Any] = {
        "rows": np.zeros(0, dtype=np.int64),
        "decode": phase,
        "prefill": phase,
        "wave": phase,
        "pause": np.zeros(0, dtype=bool),
        "disaggregated": np.zeros(0, dtype=bool),
        "engine": (),
        "generation": (),
    }
    return RunTerms(**{f.name: special.get(f.name, empty) for f in fields(RunTerms)})


def breakdown(terms: RunTerms, coefficients: CoefficientArrays) -> dict[str, Array]:
    """Seconds of one decode step and one prefill step by part, each (n,); parts that no run has are left out."""
    c = coefficients
    out: dict[str, Array] = {}
    for name, phase, factors in (("decode", terms.decode, c.decode), ("prefill", terms.prefill, c.prefill)):
        timed = _timed(phase, factors)
        for i in range(len(COLUMNS)):
            if phase.operators[:, i].any():
                out[f"{name}_{factor_key(i)}"] = timed[:, i]
        out[f"{name}_small_kernels"] = _small_kernels_s(phase, c) + phase.other
    total = {name: sum(v for k, v in out.items() if k.startswith(name)) for name in ("decode", "prefill")}
    out["decode_host"] = decode_step_s(terms.decode, c) - total["decode"]
    out["prefill_host"] = prefill_step_s(terms.prefill, c) - total["prefill"]
    return out


def closed_loop_rps(concurrency: Array, output_tokens: Array, ttft_s: Array, tpot_s: Array) -> Array:
    """Requests per second of a closed loop by Little's law, (n,)."""
    return np.asarray(concurrency / (ttft_s + tpot_s * np.maximum(output_tokens - 1.0, 0.0)))


def predict(terms: RunTerms, coefficients: CoefficientArrays) -> LoopTimes:
    """TTFT, TPOT and throughput of every run (whole deployment) under coefficients given run by run."""
    c = coefficients
    d = decode_step_s(terms.decode, c)
    m = prefill_step_s(terms.prefill, c)
    agg = aggregated(
        terms.concurrency,
        terms.slots,
        terms.output_tokens,
        d,
        m,
        terms.chunks,
        terms.prompts_per_step,
        terms.pause,
        c.request_s,
        terms.first_wave_share,
        group_prompts=terms.group_prompts,
        most_prompts=terms.most_prompts,
        poll_steps=terms.poll_steps,
        wave_step_s=prefill_step_s(terms.wave, c),
    )
    dis = disaggregated(
        terms.concurrency,
        terms.slots,
        terms.output_tokens,
        d,
        m,
        terms.chunks,
        terms.prefill_servers,
        terms.transfer_s,
        c.request_s,
        terms.first_wave_share,
    )
    pick = [np.where(terms.disaggregated, getattr(dis, f.name), getattr(agg, f.name)) for f in fields(LoopTimes)]
    return LoopTimes(*pick)


@dataclass(frozen=True)
class CoefficientArrays:
    """Calibrated coefficients run by run: (n,) seconds, (n, F) factors."""

    host_step_s: Array
    host_prefill_step_s: Array
    host_seq_s: Array
    layer_overhead_s: Array
    moe_layer_overhead_s: Array
    launch_layer_s: Array
    launch_moe_layer_s: Array
    request_s: Array
    decode: Array
    prefill: Array


def decode_step_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    """Seconds of a step without prompt tokens (planner.roofline.step, from its terms)."""
    return _operators_s(phase, c.decode, c) + c.host_step_s * phase.stages + c.host_seq_s * phase.sequences


def prefill_step_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    """Seconds of a step with prompt tokens: kernels are launched one by one beside those that run."""
    busy = _operators_s(phase, c.prefill, c)
    launch = phase.layers * c.launch_layer_s + phase.moe_layers * c.launch_moe_layer_s
    busy = busy + launch_excess(busy, launch)
    return busy + c.host_prefill_step_s * phase.stages + c.host_seq_s * phase.sequences


def _operators_s(phase: PhaseTerms, factors: Array, c: CoefficientArrays) -> Array:
    return np.asarray(_timed(phase, factors).sum(axis=1) + phase.other + _small_kernels_s(phase, c))


def _timed(phase: PhaseTerms, factors: Array) -> Array:
    """Operator seconds by COLUMNS, (n, F); neither experts nor linear layers outrun the stream of their weights."""
    timed = phase.operators * factors
    for columns, stream in ((EXPERTS, phase.expert_stream), (LINEAR, phase.linear_stream)):
        taken = timed[:, columns].sum(axis=1)
        timed[:, columns] *= np.maximum(stream / np.maximum(taken, 1e-300), 1.0)[:, None]
    return timed


def _small_kernels_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    return np.asarray(phase.kernel_layers * c.layer_overhead_s + phase.moe_layers * c.moe_layer_overhead_s)
