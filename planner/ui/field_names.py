"""What the form calls the keys of a scenario: a refusal of what was typed there speaks of fields, not of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.ui.i18n import _
from planner.ui.words import latencies, node_label, percentiles, precision_classes

_PATH = re.compile(r"[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)+")
_LENGTHS = ("tokens", "min_tokens", "max_tokens", "mean_tokens", "p95_tokens")
_PART = re.compile(rf"\b(?:{'|'.join(_LENGTHS[1:])})\b")
"""Numbers of a length that a refusal names without their place; ``tokens`` is a word as well."""


def option_labels() -> dict[str, str]:
    """Engine option -> label."""
    return {
        "gpu_memory_utilization": _("Part of GPU memory used, 0–1"),
        "max_num_seqs": _("Most sequences in a step"),
        "max_num_batched_tokens": _("Most tokens in a step"),
        "max_model_len": _("Longest context, tokens"),
        "chunked_prefill": _("Chunked prefill"),
        "cuda_graphs": _("CUDA graphs"),
        "two_batch_overlap": _("Two-batch overlap"),
        "redundant_experts": _("Copies of hot experts"),
        "expert_skew": _("Unevenness of expert use"),
    }


def recovery_labels() -> dict[str, str]:
    """Field of the scenario's reliability -> label with its unit."""
    return {
        "detection_s": _("Until a failure is noticed, s"),
        "restart_s": _("Restart on other hardware, s"),
        "weight_read_gb_s": _("Reading weights, GB/s for each node"),
        "graph_capture_s": _("CUDA graph capture, s"),
        "warm_up_s": _("Memory profile and kernel tuning, s"),
        "gpu_failures_per_year": _("Failures a year for each GPU"),
    }


def length_labels() -> dict[str, str]:
    """Number of a length distribution -> label; stands beside the length's own."""
    return dict(zip(_LENGTHS, (_("tokens each"), _("from"), _("to"), _("mean"), _("95 % are below")), strict=True))


def _known() -> dict[str, str]:
    lengths = {"input_tokens": _("Input tokens"), "output_tokens": _("Output tokens")}
    return {
        "model": _("Model"),
        "objective": _("Best means"),
        "search.serving": _("Serving"),
        "hardware.candidates": _("Hardware to try"),
        "hardware.max_gpus_per_worker": _("Most GPUs in one worker"),
        "reliability.spare_nodes": _("Spare nodes"),
        "reliability.failures": _("Failures to survive at once"),
        "reliability.gpus_per_rack": _("GPUs in one rack"),
        **{f"reliability.{name}": label for name, label in recovery_labels().items()},
        "engine.version": _("Version"),
        **{f"engine.options.{name}": label for name, label in option_labels().items()},
        **{f"precision.{name}": label for name, label in precision_classes().items()},
        "workload.arrival.concurrency": _("Requests in flight"),
        "workload.arrival.rate_rps": _("Requests per second"),
        "workload.arrival.cv": _("Variation of the gaps"),
        "workload.daily_profile.peak_to_mean": _("Busiest hour over the day's mean"),
        "workload.prefix_hit_rate": _("Prefix cache hits, % of input tokens"),
        "slo.completion_rate": _("Requests completed, at least %"),
        **{f"workload.{key}": label for key, label in lengths.items()},
        **{
            f"workload.{key}.{name}": _("{length}, {part}").format(length=label, part=part)
            for key, label in lengths.items()
            for name, part in length_labels().items()
        },
        **{f"slo.{metric}": _("{short}, ms").format(short=short) for metric, (_l, short, _h) in latencies().items()},
    }


def field_label(path: str, nodes: Sequence[str] = ()) -> str | None:
    """What the form calls the key at ``path`` of a scenario (dotted), None where it has no field for it; ``nodes`` are
    the node types chosen, in order.
    """
    found = _known().get(path)
    if found is not None:
        return found
    parts = path.split(".")
    if parts[0] == "slo" and len(parts) == 3 and parts[2] in percentiles():
        short = field_label(f"slo.{parts[1]}")
        named = _("{limit} at {percentile}")
        return None if short is None else named.format(limit=short, percentile=percentiles()[parts[2]])
    if parts[:2] == ["hardware", "candidates"] and len(parts) == 4 and parts[2].isdigit():
        place = int(parts[2])
        words = {"max_nodes": _("Most nodes of {node}"), "gpus": _("GPUs used in each {node}")}.get(parts[3])
        return words.format(node=node_label(nodes[place])) if words and place < len(nodes) else None
    if parts[:2] == ["economics", "usd_per_gpu_hour"] and len(parts) == 3:
        return _("{length}, {part}").format(length=_("Prices"), part=node_label(parts[2]))
    return None


def with_labels(text: str, nodes: Sequence[str] = ()) -> str:
    """``text`` with every key of a scenario that the form has a field for called by that field's name, in quotes."""
    parts = length_labels()

    def quoted(path: str) -> str:
        label = parts.get(path) or field_label(path, nodes)
        return path if label is None else f"“{label}”"

    return _PART.sub(lambda m: quoted(m[0]), _PATH.sub(lambda m: quoted(m[0]), text))
