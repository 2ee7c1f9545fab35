"""Published points beside the planner's prediction: DeepSeek, SGLang, vLLM, TensorRT-LLM, CloudMatrix384.

Nothing is fitted to them. ``python -m planner.evidence.published FOLDER`` prints the table as Markdown
(docs/published.md). Prefill and decode points are one step of the layout with the published batch; the others are the
closed loop that validation uses.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.errors import InputError, PlannerError
from planner.evidence.e2e_calibrate import shipped_coefficients
from planner.evidence.memory_logs import first_keys
from planner.evidence.published_state import Statement, Unstated, is_entry, names, state
from planner.evidence.run_reading import KV_FORMATS, MODELS_HINT
from planner.evidence.run_terms import architecture_name, predict, reading_rules, run_terms
from planner.evidence.runs import runs_from_rows
from planner.hardware.curves import curves
from planner.hardware.device import device
from planner.hardware.fabric import fabric
from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import default_expert_skew, step_coefficients
from planner.roofline.program import program
from planner.roofline.step import StepContext, StepWork, step_times
from planner.scenario.load import read_text
from planner.scenario.safe_yaml import load_yaml
from planner.units import MIB, MILLISECOND

FILES = ("e2e_deepseek.yaml", "e2e_sglang.yaml", "e2e_vllm.yaml", "e2e_trtllm.yaml", "e2e_ascend.yaml")
MAX_YAML_BYTES = 4 * MIB


@dataclass(frozen=True)
class Comparison:
    """One published figure and its prediction; ``ratio`` is predicted over published."""

    id: str
    subject: str
    figure: str
    published: float
    predicted: float
    notes: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.predicted / self.published


def is_published(text: str) -> bool:
    """Whether a text is a YAML list of published points, by the keys of its first entry in any order."""
    return first_keys(text) >= {"id", "phase", "metrics"}


def read_points(path: Path) -> list[Mapping[str, Any]]:
    """The points of a file. Raises InputError where it is no list of them."""
    data = load_yaml(read_text(path, MAX_YAML_BYTES), path.name, MAX_YAML_BYTES)
    if not isinstance(data, list) or not all(is_entry(e) for e in data):
        raise InputError(path.name, type(data).__name__, "a list of points with id, phase and metrics")
    return data


def compare_points(entries: Sequence[Mapping[str, Any]], catalog: Catalog) -> tuple[list[Comparison], list[Unstated]]:
    """Every point that can be stated beside its prediction, and the others with their reason."""
    found: list[Comparison] = []
    left: list[Unstated] = []
    specs = {architecture_name(s.hf_id or s.id): s for s in (catalog.model(i) for i in catalog.model_ids())}
    for entry in entries:
        statement = state(entry)
        if isinstance(statement, Unstated):
            left.append(statement)
            continue
        spec = specs.get(architecture_name(statement.model))
        if spec is None:
            left.append(Unstated(statement.id, f"model not in the catalogue; {MODELS_HINT}"))
            continue
        statement = _filled(statement, spec)
        try:
            predicted = _loop(statement, spec, catalog) if statement.phase == "agg" else _step(statement, spec, catalog)
        except PlannerError as error:
            left.append(Unstated(statement.id, str(error)))
            continue
        found += [
            Comparison(statement.id, _subject(statement), name, value, predicted[name], statement.notes)
            for name, value in statement.figures.items()
        ]
    return found, left


def _filled(s: Statement, spec: ModelSpec) -> Statement:
    """The point with its redundant experts in the layout: as stated, else what fills up the last expert rank."""
    experts = max((f.experts for f in spec.feed_forwards.values() if isinstance(f, MoeFeedForward)), default=0)
    ep = s.layout["ep"]
    if not experts or ep == 1:
        return s
    if s.redundant_experts is not None:
        return replace(s, layout={**s.layout, "redundant_experts": s.redundant_experts})
    missing = -experts % ep
    if not missing:
        return s
    note = f"{missing} redundant experts, so that {experts} divide over EP{ep}"
    return replace(s, layout={**s.layout, "redundant_experts": missing}, notes=(*s.notes, note))


def _step(s: Statement, spec: ModelSpec, catalog: Catalog) -> dict[str, float]:
    """Tokens per second per GPU of one step of the published batch."""
    accelerator, node = catalog.accelerator(s.accelerator), catalog.node(s.node)
    ctx = StepContext(
        program=program(spec),
        precision=_precision(s, spec),
        curves=curves(device(accelerator, node), s.engine),
        coefficients=step_coefficients(s.engine, accelerator.arch),
        domain=fabric(node, accelerator).domain,
        expert_skew=0.0 if s.balanced else default_expert_skew(),
        whole_dense=engine_memory(s.engine, catalog).whole_dense,
    )
    layouts = Layouts.of(**s.layout)
    replica = s.layout["tp"] * s.layout["pp"]
    batch = np.array([s.batch * replica])
    flags = np.array([s.two_batch]), np.array([s.layout["ep"] > 1 and s.layout["attention_dp"] > 1])
    if s.phase == "decode":
        work = StepWork(batch, np.array([s.input_tokens + 0.5 * s.output_tokens]))
    else:
        cached = s.input_tokens * s.cache_hit_rate
        work = StepWork(
            np.zeros(1),
            np.array([s.input_tokens]),
            batch,
            batch / (s.input_tokens - cached),
            np.array([cached]),
            batch * s.layout["attention_dp"],
        )
    seconds = float(step_times(ctx, layouts, work, *flags).total[0])
    return {"tok_per_s_per_gpu": s.batch / seconds}


def _precision(s: Statement, spec: ModelSpec) -> PrecisionPlan:
    """The checkpoint's formats, changed to what the point records."""
    rules = reading_rules()
    plan = PrecisionPlan.from_checkpoint(spec)
    blocks = rules.block_scaled in (plan.attention, plan.routed_experts, plan.dense_mlp)

    def named(word: str) -> str:
        return rules.block_scaled if word == "fp8" and blocks else rules.formats.get(word, word)

    dense = dict.fromkeys(("attention", "dense_mlp", "shared_experts"), named(s.linear_precision))
    if s.linear_precision == "nvfp4" and _has_experts(spec):
        dense = dict(rules.nvfp4_moe_linear)
    changes = {**dense, "kv": KV_FORMATS.get(s.kv, "bf16")}
    if _has_experts(spec):
        changes["routed_experts"] = named(s.moe_precision)
    return plan.with_overrides(changes)


def _loop(s: Statement, spec: ModelSpec, catalog: Catalog) -> dict[str, float]:
    """TTFT, TPOT and output tokens per second of the closed loop."""
    row: dict[str, Any] = {
        "model": spec.hf_id or spec.id,
        "gpu": s.accelerator,
        "engine": s.engine,
        "bench": s.bench,
        "linear_precision": s.linear_precision,
        "moe_precision": s.moe_precision if _has_experts(spec) else "",
        "kv_precision": s.kv,
        "input_tokens": s.input_tokens,
        "output_tokens": s.output_tokens,
        "concurrency": s.batch,
        **s.layout,
    }
    if s.workers is not None:
        row["serving"] = "disagg"
        for pool, count in zip(("prefill", "decode"), s.workers, strict=True):
            row |= {f"{pool}_{name}": value for name, value in s.layout.items()} | {f"{pool}_workers": count}
    terms, failures = run_terms(runs_from_rows([row]), catalog)
    if failures:
        raise InputError(s.id, s.model, failures[0])
    loop = predict(terms, shipped_coefficients(terms))
    return {
        "ttft_ms": float(loop.ttft_s[0]) / MILLISECOND,
        "tpot_ms": float(loop.tpot_s[0]) / MILLISECOND,
        "output_tok_per_s": float(loop.throughput_rps[0]) * s.output_tokens,
    }


def _has_experts(spec: ModelSpec) -> bool:
    return any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values())


def _subject(s: Statement) -> str:
    layout = " ".join(f"{_SHORT[k]}{v}" for k, v in s.layout.items() if v > (k in _FROM_ONE)) or "TP1"
    lengths = f"{s.input_tokens:g}+{s.output_tokens:g}" if s.output_tokens else f"{s.input_tokens:g}"
    offline = s.batch == names()["offline_concurrency"]
    batch = {"prefill": f"{s.batch:,.0f} tok/GPU", "decode": f"{s.batch:g} seq/GPU"}.get(s.phase, f"c{s.batch:g}")
    phase = s.phase if s.workers is None else f"{s.workers[0]} prefill + {s.workers[1]} decode"
    return (
        f"{s.model.rsplit('/', 1)[-1]} {phase} on {s.accelerator}, {layout}, {lengths} tokens, "
        f"{'offline' if offline else batch}"
    )


_SHORT = {"tp": "TP", "pp": "PP", "attention_dp": "DP", "moe_tp": "MoE-TP", "ep": "EP", "redundant_experts": "+"}
_FROM_ONE = frozenset({"tp", "pp", "attention_dp", "moe_tp", "ep"})


def summary(comparisons: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """By figure: points, median ratio, median and 90th percentile of |log ratio| as a factor."""
    out: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(c.figure for c in comparisons):
        logs = np.log([c.ratio for c in comparisons if c.figure == name])
        out[name] = {
            "points": len(logs),
            "median_ratio": float(np.exp(np.median(logs))),
            "median_factor": float(np.exp(np.median(np.abs(logs)))),
            "p90_factor": float(np.exp(np.quantile(np.abs(logs), 0.9))),
        }
    return out


def validate_published(entries: Sequence[Mapping[str, Any]], catalog: Catalog) -> dict[str, Any]:
    """The report of published points: kind, rows, predicted, failed (reason: count), metrics, points."""
    found, left = compare_points(entries, catalog)
    failed: dict[str, int] = {}
    for unstated in left:
        failed[unstated.reason] = failed.get(unstated.reason, 0) + 1
    return {
        "kind": "published",
        "rows": len(entries),
        "predicted": len({c.id for c in found}),
        "failed": dict(sorted(failed.items(), key=lambda pair: -pair[1])),
        "metrics": summary(found),
        "points": [vars(c) | {"ratio": c.ratio, "notes": list(c.notes)} for c in found],
        "unstated": [vars(u) for u in left],
    }


def markdown(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of docs/published.md from reports by file."""
    lines = [
        "# Published points beside the prediction",
        "",
        "Generated by `python -m planner.evidence.published measured/published`. No fit used any of these points.",
        "Prefill and decode points are one step of the published layout and batch, in tokens per second per GPU; the",
        "others are the closed loop of the published concurrency. Ratio is predicted over published.",
        "",
    ]
    for name, report in reports.items():
        lines += [f"## {name}", "", f"{report['predicted']} of {report['rows']} points stated.", ""]
        if report["metrics"]:
            lines += [
                "| figure | values | median ratio | median factor off | P90 factor off |",
                "|---|---|---|---|---|",
            ]
            lines += [
                f"| {name} | {m['points']:.0f} | "
                + " | ".join(f"{m[k]:.2f}" for k in ("median_ratio", "median_factor", "p90_factor"))
                + " |"
                for name, m in report["metrics"].items()
            ]
            lines += [
                "",
                "| point | what | figure | published | predicted | ratio | assumed |",
                "|---|---|---|---|---|---|---|",
            ]
            lines += [
                f"| {p['id']} | {p['subject']} | {p['figure']} | {_short(p['published'])} | {_short(p['predicted'])} | "
                f"{p['ratio']:.2f} | {'; '.join(p['notes'])} |"
                for p in report["points"]
            ]
            lines.append("")
        if report["failed"]:
            lines += ["Not stated:", "", *(f"- {count} × {reason}" for reason, count in report["failed"].items()), ""]
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(folder: Path) -> str:
    """The Markdown table of all files of a folder of published points."""
    known = open_catalog()
    paths = [folder / name for name in FILES if (folder / name).is_file()]
    if not paths:
        raise InputError("folder", str(folder), f"a folder with {', '.join(FILES)}")
    return markdown({p.stem: validate_published(read_points(p), known) for p in paths})


def command(arguments: Sequence[str]) -> int:
    """Prints the table of the folder named first (default measured/published); 2 with one sentence on bad input."""
    try:
        print(main(Path(arguments[0] if arguments else "measured/published")))
    except PlannerError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
