"""docs/accuracy.md: what cross-validation says about the end-to-end model, written from its residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.evidence.accelerator_check import LEAST_MODELS, LEAST_RUNS
from planner.evidence.e2e_crossval import (
    DISTANCE_OF_SCHEME,
    SCHEMES,
    Residuals,
    accelerator_classes,
    coverage,
    errors,
    interval_classes,
)
from planner.evidence.e2e_fit import PHASES
from planner.evidence.runs import Runs
from planner.roofline.coefficients import HOST_KEYS

Array = NDArray[np.float64]

FACTOR_RANGE = (0.6, 1.6)
"""Factors outside say that end-to-end runs want another time than the operator tables measured."""
FEW_RUNS = 3

FACTOR_REASONS = """
Where end-to-end runs want another time than operator tables give, the model misses a term, or the tables measured
another kernel than the runs had:

* Experts in decode below their measured time, on TensorRT-LLM and on Blackwell. With popularity as uneven as published
  (coefficient of variation 1.36) a batch touches fewer experts than even routing would; that took the factors from 0.5
  to the values above. What is left is within what other kernels reach: whatever the factor, experts take no less than
  streaming the touched weights once at full bandwidth. Tables of TensorRT-LLM's own kernels are of plain, ungated
  experts on Hopper and of one format on Blackwell; the other formats take vLLM's.
* Experts in prefill at over twice their measured time on SGLang, on both generations, and with MXFP4 on Hopper. Tried
  without success: passes over the routed rows (permutation, quantisation, weighted sum) as a term of its own take 5 of
  them and leave 1.9, and a model left out is then predicted worse (TPOT median 15 % for 13 %); uneven load over EP
  ranks explains that EP is no faster than TP, not the factor; dense models of the same engine and versions need none.
  The runs are of versions 0.5.6 to 0.5.9, the tables of 0.5.14; those of gpt-oss are older than its tables too. Against
  the factor: on an H20, where it does not multiply what the weaker tensor cores add to the measured kernel's time and
  the kernel's own time is met (docs/background/limits.md), SGLang reaches 1.6 times the predicted rate, and DeepSeek-R1
  on 16 H100 takes 264 ms for 8,192 tokens where nearly 600 are predicted (docs/published.md). For it: TTFT
  of DeepSeek-R1 on one H200 node, held out, is met within 5 to 20 %. The missing time does not grow with FLOPs and may
  be one of these launch scripts.
* Kernels behind a DeepEP dispatch and DeepGEMM's contiguous layout take no factor: no run dispatches, and the runs
  that use the layout (vLLM 0.12, block-scaled, on Hopper) are met as measured. All-reduces that leave a scale-up
  domain are NCCL's as measured, without a factor: no run has such.
"""

INTRODUCTION = """\
# Accuracy of predicted serving times

Written by `planner calibrate e2e measured --cross-validate --report docs/accuracy.md`; do not edit.

Every run is predicted by coefficients that were fitted without it. APE is |predicted − measured| / measured; bias is
the median of predicted / measured − 1. Runs whose speculative decoding is not recorded are left out. Identical
configurations differ by 5 % (TPOT) and 7 % (TTFT) on average, so less than that cannot be asked for.
"""

METHOD = """\
## What is fitted

Operator curves come from operator measurements alone. End-to-end runs add, per engine and accelerator generation: host
time of a step without and with prompt tokens and per sequence, the small kernels of a layer and of an expert layer, the
launch time of a layer whose step replays no CUDA graph, a fixed time of a request, and a factor on the times of each
operator family (linear layers, attention cores, experts, communication) in steps without and with prompt tokens, with
a deviation of each data type for linear layers and experts. All are fitted together in their logarithms under a
Geman-McClure loss, with which a run that is far off says nothing, and held to a common prior
(`hardware_db/efficiency/e2e_prior.yaml`): factors to 1 within the operator tables' own errors, launch times to what a
layer's kernels take on any engine. There is no coefficient per model, layout or run.

Terms that residuals asked for, in the order in which they were found:

* Closed loops with outputs of one length keep requests in step where decodes pause for prompts (SGLang): all prompts
  return together, and TTFT is half of the time that all of them take. With lengths spread over 0.8 to 1.0 they do not.
* InferenceX's SGLang scripts on Blackwell look at the queue every 10 or 30 steps, which is most of their TTFT;
  TensorRT-LLM's hold prompts back to fill a batch or, under attention DP, until every rank has one.
* The first wave of a benchmark (one request in ten) waits for half of the others' prompts: at 64 in flight that is most
  of the mean TTFT.
* Steps with prompt tokens replay no CUDA graph; short prompts of many-layered models take as long as launching does.
* Expert layers run small kernels that dense ones do not; norms of queries and keys, latent and linear attention run
  further ones.
* An "fp8" run of a checkpoint that is scaled by blocks runs block-scaled kernels; NVFP4 checkpoints of expert models
  keep their attention at 16 bits.
* vLLM 0.12 runs block-scaled experts on Hopper through DeepGEMM's contiguous layout, in which every touched expert's
  rows are padded to 128: a decode step takes nearly the same time whatever its batch.
* Where TTFT grows by output x TPOT / concurrency, the time between two completions, one request more is in flight than
  the batch holds (TensorRT-LLM's 16-bit runs).
* vLLM's runs with lengths in thousands show no trace of prompts in TPOT, which is the same for 100 and for 2,000 tokens
  after a prompt (94,000 prompt tokens per second beside decoding would be 76 % of the FP8 peak of an H200): they are
  read as prompts apart from decodes, with twice a prompt's time as TTFT. What the client did is not recorded.
* Experts are touched by popularity, and EP ranks loaded by it, in calibration as in plans.
"""


def accuracy_markdown(runs: Runs, found: Mapping[str, Residuals], document: Mapping[str, Any]) -> str:
    """The page, from held-out residuals by scheme and the fitted document (e2e.yaml)."""
    parts = [INTRODUCTION, _schemes(found), METHOD, _intervals(found), _by_accelerator(runs, found)]
    for scheme, column, title in (
        ("group", "engine", "Groups left out: by engine"),
        ("group", "gpu", "Groups left out: by GPU"),
        ("group", "concurrency", "Groups left out: by requests in flight"),
        ("model", "model", "Models left out, one at a time"),
        ("gpu", "gpu", "GPUs left out, one at a time"),
        ("engine_version", "engine_version", "Engine versions left out, one at a time"),
        ("engine", "engine", "Engines left out, one at a time"),
    ):
        if scheme in found:
            parts.append(_by(runs, found[scheme], column, title))
    if "group" in found:
        parts.append(_weak(runs, found["group"]))
    parts.append(_factors(document))
    return "\n".join(parts)


def _schemes(found: Mapping[str, Residuals]) -> str:
    rows = []
    for scheme, residuals in found.items():
        rows.append((SCHEMES[scheme], *_cells(errors(residuals))))
    return _table("## Runs held out of the fit", ("left out", *COLUMNS), rows)


COLUMNS = ("runs", "TPOT median APE", "TPOT P90", "TPOT bias", "TTFT median APE", "TTFT P90", "TTFT bias")


def _cells(e: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    cells = [f"{e['tpot']['runs']:,.0f}"]
    for metric in ("tpot", "ttft"):
        cells += [f"{100 * e[metric][k]:.1f} %" for k in ("median_ape", "p90_ape")]
        cells.append(f"{100 * e[metric]['bias']:+.1f} %")
    return tuple(cells)


def _labels(runs: Runs, rows: NDArray[np.int64], column: str) -> list[str]:
    if column == "concurrency":
        return [str(int(2 ** np.ceil(np.log2(max(runs["concurrency"][r], 1.0))))) for r in rows]
    if column == "engine_version":
        return [f"{runs.text['engine'][r]} {runs.text['engine_version'][r] or 'not recorded'}" for r in rows]
    return [runs.text[column][r] for r in rows]


def _by(runs: Runs, residuals: Residuals, column: str, title: str) -> str:
    labels = np.array(_labels(runs, residuals.rows, column), dtype=object)
    names = sorted(set(labels.tolist()), key=lambda v: (int(v) if v.isdigit() else 0, v))
    rows = []
    for name in names:
        chosen = labels == name
        if chosen.sum() >= FEW_RUNS:
            label = f"up to {name}" if column == "concurrency" else name
            rows.append((label, *_cells(errors(residuals.take(chosen)))))
    return _table(f"## {title}", (column.replace("_", " "), *COLUMNS), rows)


def _weak(runs: Runs, residuals: Residuals) -> str:
    """Model × GPU × engine groups that hold the P90 back, worst first."""
    labels = np.array(
        [" · ".join(runs.text[n][r].split("/")[-1] for n in ("model", "gpu", "engine")) for r in residuals.rows]
    )
    found = []
    for name in sorted(set(labels.tolist())):
        chosen = labels == name
        e = errors(residuals.take(chosen))
        if max(e["tpot"]["median_ape"] / 0.25, e["ttft"]["median_ape"] / 0.55) >= 0.8:
            found.append((e["tpot"]["median_ape"] + 0.4 * e["ttft"]["median_ape"], (name, *_cells(e))))
    rows = [row for _, row in sorted(found, key=lambda pair: -pair[0])]
    return _table("## Groups that hold the figures back", ("model · GPU · engine", *COLUMNS), rows) + WEAK_REASONS


WEAK_REASONS = """
* Qwen3-32B on GB200 with TensorRT-LLM 1.3: TPOT jumps from 8 ms at one stream to 42 ms at two and is not monotone
  after. The aggregated NVFP4 rows on GB200 and B200 state one TP2 worker for over 400 prompts of 15,000 tokens, three
  times what its cache holds; the disaggregated rows beside them have 64 GPUs. Taken as 32 workers with 13 or 14
  requests each, they are predicted as those are. Records in error, most likely: two streams would deliver fewer tokens
  than one. The accelerator's curves are not the cause: its 45 runs of DeepSeek, in no fit because their speculative
  decoding is not recorded, take 1.05 times the predicted TPOT with TensorRT-LLM (29 runs, eight of ten 0.9 to 1.15) and
  0.8 times with SGLang (16, 0.6 to 1.0).
* gpt-oss-120b with vLLM at 512 in flight on H100 shows the TPOT of 64 running sequences: a limit on sequences that the
  record does not give.
* DeepSeek-V3 and R1 with SGLang: the same layout, precision and load differs by a factor of 1.2 to 1.5 in TPOT between
  the two names of one architecture, and R1's own pairs by as much, the faster with the longer TTFT, as speculative
  decoding does; TTFT of 7 to 9 s at 32 in flight (V3, NVFP4) is ten times that of its neighbours, as if first requests
  still compiled kernels.
* DeepSeek on one H200 node, in none of the fits: the runs of TensorRT-LLM under V3's name (speculative decoding not
  recorded) take 1.2 times the predicted TPOT at every load, those of SGLang 0.5.7 (docs/published.md) 0.8 times, 12.8
  ms at 8 in flight. The two engines differ by more than any term of the step that both would lack.
* Llama-3.1-8B with TensorRT-LLM at TP8 and 64 or 128 in flight: TTFT of up to 2 s that is a quarter of the residence,
  where one prompt takes 25 ms; not the same at TP1.
"""


def _intervals(found: Mapping[str, Residuals]) -> str:
    if any(scheme not in found for scheme in DISTANCE_OF_SCHEME):
        return ""
    classes, covered = interval_classes(found), coverage(found)
    rows = []
    for name, metrics in classes.items():
        for metric in ("tpot", "ttft", "throughput"):
            q = metrics[metric]
            bounds = [f"{np.exp(q[k]):.2f}" for k in ("q10", "q25", "q50", "q75", "q90")]
            rows.append((name, metric, f"{q['count']:,}", *bounds, f"{100 * covered[name][metric]:.0f} %"))
    head = ("distance", "metric", "runs", "10 %", "25 %", "median", "75 %", "90 %", "80 % interval covers")
    note = (
        "\nMeasured over predicted, by distance to the evidence; the last column is the coverage of runs whose half of "
        "the residuals was not used for the interval.\n"
    )
    return _table("## Intervals", head, rows) + note


def _by_accelerator(runs: Runs, found: Mapping[str, Residuals]) -> str:
    """Intervals of accelerators of their own, and how many of their runs those of all accelerators hold."""
    if any(scheme not in found for scheme in DISTANCE_OF_SCHEME):
        return ""
    gpus = np.array([runs.text["gpu"][r] for r in found["group"].rows])
    kind = DISTANCE_OF_SCHEME["group"]
    rows = []
    for gpu, figures in accelerator_classes(runs, found).items():
        own = "classes" in figures
        covered = coverage(found, gpus == gpu)[kind] if own else {}
        for metric, held_out in figures["held_out"].items():
            q = figures["classes"][kind][metric] if own else {}
            bounds = [f"{np.exp(q[k]):.2f}" if own else "–" for k in ("q10", "q50", "q90")]
            inside = f"{held_out['inside80']:,} of {figures['runs']:,}"
            own_share = f"{100 * covered[metric]:.0f} %" if own else "–"
            rows.append((gpu, metric, f"{len(figures['models'])}", inside, *bounds, own_share))
    head = ("gpu", "metric", "models", "inside interval of all", "10 %", "median", "90 %", "own 80 % interval covers")
    return _table("## Intervals by accelerator", head, rows) + ACCELERATOR_NOTE


ACCELERATOR_NOTE = f"""
Whole groups left out ({DISTANCE_OF_SCHEME["group"]}); the other distances are stored likewise. The interval of all
accelerators holds on average over them, so each with {LEAST_RUNS} runs of {LEAST_MODELS} models or more has quantiles
of its own errors, at the positions (n + 1) q of their order: {LEAST_RUNS} is the least n at which a tenth of the
probability lies beyond the smallest and the largest error. Runs of one model or layout are not independent of each
other: where an accelerator has few models, other models on it may lie outside more often, and errors of one or two
models are not taken for the accelerator's. All others have the interval of their distance, and a plan says what the
runs on them showed.
"""


def _factors(document: Mapping[str, Any]) -> str:
    low, high = FACTOR_RANGE
    rows = []
    for engine, fit in document["engines"].items():
        for generation, values in fit["generations"].items():
            for phase in PHASES:
                rows += [
                    (f"{engine} on {generation}", phase, name, f"{value:.2f}")
                    for name, value in values[phase].items()
                    if not low <= value <= high
                ]
    title = f"## Factors outside {low} to {high}"
    note = FACTOR_REASONS
    hosts = [
        (f"{engine} on {generation}", *(f"{values[name]:,.4g}" for name in HOST_KEYS))
        for engine, fit in document["engines"].items()
        for generation, values in fit["generations"].items()
    ]
    return (
        _table(title, ("coefficients of", "steps", "factor", "value"), rows)
        + note
        + "\n"
        + _table(
            "## Host and launch times", ("coefficients of", *(name.replace("_", " ") for name in HOST_KEYS)), hosts
        )
    )


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [title, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
