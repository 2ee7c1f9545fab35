"""What a plan takes for granted, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from planner.economics.energy import power_model
from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.search.certainty import accelerator_checks
from planner.search.evaluation import low_latency
from planner.search.plan_schema import Candidate
from planner.search.setup import Hardware, Setup
from planner.serving.speculative import tokens_per_step


def assumptions(s: Setup, hardware: Sequence[Hardware], found: Sequence[Candidate]) -> tuple[str, ...]:
    """Sentences in the order of their weight, without repetition."""
    lines = [
        *_percentiles(s),
        *_traffic(s),
        *_hardware(s, hardware, found),
        *_not_used(s),
    ]
    return tuple(dict.fromkeys(lines))


FEWEST = "Workers are as few as meet every limit at the percentile it names, at the offered mean rate."


ASKED = "A concurrency of "
"""How :func:`held_at_rate` begins."""


def held_at_rate(c: Candidate, rate_rps: float, asked: float) -> str:
    """What a concurrency that was ``asked`` for means at an offered rate, which decides how full workers are."""
    workers = "1 worker, which holds" if c.replicas == 1 else f"{c.replicas:,} workers, which hold"
    each = "" if c.replicas == 1 else " each"
    return (
        f"{ASKED}{asked:,g} is what a worker may hold on average: at {rate_rps:g} requests per second that "
        f"takes {workers} {c.concurrency / c.replicas:,.3g}{each}."
    )


def _percentiles(s: Setup) -> list[str]:
    lines = _steady(s)
    slo = s.scenario.slo
    if not slo.limits() and slo.completion_rate is None:
        lines.insert(0, "No limit is given under slo: any answer time counts as good, and the objective alone decides.")
    return lines


def _steady(s: Setup) -> list[str]:
    if s.rate_rps is None:
        return [
            "Percentiles of a closed loop: a fixed number of requests, varying lengths, prompts that queue one by one."
        ]
    cv = s.scenario.workload.arrival.gap_cv() or 1.0
    lines = [
        f"Percentiles are those of a steady stream of requests (CV of the gaps {cv:g}) spread over the least loaded "
        "workers; closed forms, checked by planner replay.",
        "A request that finds no KV slot waits for one; the completion rate counts it as refused.",
    ]
    if s.scenario.slo.limits():
        lines.append("Goodput takes TTFT and the gaps between tokens of a request as independent of each other.")
    return lines


def _traffic(s: Setup) -> list[str]:
    w, engine = s.scenario.workload, s.scenario.engine
    lines = [
        f"Requests have {float(s.traffic.input_tokens):,.0f} input and "
        f"{float(s.traffic.output_tokens):,.0f} output tokens on average.",
        f"KV cache in {s.precision.kv}; {s.spec.name} weights: "
        + ", ".join(f"{name.replace('_', ' ')} {fmt}" for name, fmt in _formats(s)),
    ]
    if s.rate_rps is not None:
        lines.append(FEWEST)
    if w.daily_profile is not None:
        lines.append(
            "The rate is that of the busiest hour of the day; other hours run fewer workers of the same layout."
        )
        if w.daily_profile.hourly is None:
            lines.append("The day between its busiest and its quietest hour is smooth, with the mean that is given.")
        share = w.daily_profile.mean_over_peak
        lines.append(
            f"Costs per token are those of the busiest hour: over the day, with a mean load of {share:.3g} of it, a "
            f"token of a fleet of fixed size costs {1.0 / share:.3g} times as much."
        )
    if w.prefix_hit_rate:
        lines.append(f"{w.prefix_hit_rate:.1%} of prompt tokens are served from the prefix cache and not computed.")
    if w.prefix_reuse is not None:
        lines.append(
            "Prefix caches are warm: after a start or a failure hits come back only as prefixes are used again."
        )
    if s.acceptance:
        lines.append(
            f"{len(s.acceptance)} draft tokens a step make {tokens_per_step(s.acceptance):.2f} tokens; what they cost "
            "is computed (wider steps, a layer and the head for each draft), how often they are accepted is given."
        )
    if engine.version is None:
        lines.append(f"No {s.scheduler.name} version is given: memory terms of the newest version known are used.")
    elif beyond := engine_memory(engine.name, s.catalog).beyond_known(engine.version):
        lines.append(f"{beyond}.")
    return lines


def _formats(s: Setup) -> list[tuple[str, str]]:
    names = ["attention", "routed_experts"] if any(f.kind == "moe" for f in s.spec.feed_forwards.values()) else []
    chosen = names or ["attention", "dense_mlp"]
    return [(name, getattr(s.precision, name)) for name in chosen]


def _hardware(s: Setup, hardware: Sequence[Hardware], found: Sequence[Candidate]) -> list[str]:
    lines: list[str] = []
    listed = {c.node for c in found} | {c.prefill_pool.node for c in found if c.prefill_pool} or {
        h.id for h in hardware
    }
    chosen = [h for h in hardware if h.id in listed]
    lines += [f"{check.text()}." for check in accelerator_checks(chosen)]
    for hw in chosen:
        if hw.price is None:
            lines.append(f"No price of {hw.accelerator.id} is known: costs on {hw.id} are not computed.")
        else:
            lines.append(f"{hw.price.assumption(hw.id)}.")
        lines += [f"{hw.id}: {text}." for text in hw.power.assumptions]
        lines += [f"{text}." for text in hw.ctx.coefficients.marks]
    if any(hw.ctx.program.moes for hw in chosen):
        skew = chosen[0].ctx.expert_skew
        lines.append(
            f"Expert popularity varies by {skew:g} of its mean (coefficient of variation); redundant experts even it "
            "out."
        )
    most = engine_memory(s.scenario.engine.name, s.catalog).deepep_most_tokens_per_rank
    if most is not None and any(_sends_far(s, chosen, c) for c in found):
        lines.append(
            f"A decode step has at most {most:,} tokens of a rank, each draft counted, where they go to experts across "
            "scale-up domains: low-latency dispatch holds no more."
        )
    lines.append("Whole nodes are paid for; GPUs of a node that no worker uses cost as much as the others.")
    lines.append(f"Energy includes the rest of the node and a PUE of {power_model().pue.value:g}.")
    return lines


def _sends_far(s: Setup, hardware: Sequence[Hardware], candidate: Candidate) -> bool:
    """Whether a candidate's decode steps send tokens to experts by low-latency kernels."""
    layout = Layouts.of(**candidate.layout.model_dump())
    return any(low_latency(s, hw, layout)[0] for hw in hardware if hw.id == candidate.node)


def _not_used(s: Setup) -> list[str]:
    """Fields of the scenario that this version reads but does not act on: said, not passed over."""
    lines = []
    if s.scenario.workload.priority_classes:
        lines.append(
            "Limits are judged over all priority classes together; by class, prompts in service always finish."
        )
    return lines
