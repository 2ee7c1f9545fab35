"""Formulas beside numbers: the symbol form, the same with the numbers put in, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from planner.scenario.schema import Scenario
from planner.search.in_flight import little, set_to_run
from planner.search.plan_schema import Candidate, MemoryGib, Phase
from planner.ui.i18n import _
from planner.ui.latex import num, text, total
from planner.ui.numbers import count
from planner.ui.words import memory_terms, term_name

SHOWN_TERMS = 5
"""Operators that a step's formula names; the rest is summed up."""


@dataclass(frozen=True)
class Formula:
    """LaTeX of the formula and of the formula with its numbers; ``source`` in words."""

    symbols: str
    numbers: str
    source: str


def cost(c: Candidate) -> Formula | None:
    """US dollars per million output tokens; None without a price."""
    if c.usd_per_hour is None or c.usd_per_mtok.output is None:
        return None
    rate = c.output_tokens_per_s_per_gpu
    return Formula(
        r"\$/\text{Mtok} = \frac{\$/\text{h} \cdot 10^6}"
        r"{\text{tokens/s per GPU} \cdot \text{GPUs} \cdot 3600}",
        rf"\frac{{{num(c.usd_per_hour)} \cdot 10^6}}"
        rf"{{{num(rate)} \cdot {c.gpus} \cdot 3600}} = {num(c.usd_per_mtok.output)}",
        _(
            "Rent of the whole deployment, spares included, over its output tokens. "
            "Prices: yours, else the catalogue's, which the assumptions name."
        ),
    )


def in_flight(scenario: Scenario, c: Candidate) -> Formula | None:
    """Little's law for the requests that a candidate counts; None where a term is not known."""
    law = little(scenario, c)
    if law is None:
        return None
    wait, outside = (rf"t_{{{text(words)}}}" for words in (_("wait"), _("outside the steps")))
    whole = rf"t_{{{text(_('whole request'))}}}"
    stay, source = {
        "workers": (
            rf"{whole} - {wait} - {outside}",
            _("The wait before its first step and what a request takes outside the steps of a worker are left out."),
        ),
        "decode": (
            rf"{whole} - \text{{TTFT}}",
            _("The decode workers have a request from its first token to its last."),
        ),
        "loop": (
            r"\text{TTFT} + (O - 1)\,\text{TPOT}",
            _("The closed loop keeps them in flight, waiting ones included. O is the mean number of output tokens."),
        ),
    }[law.counted]
    sign = " + " if law.counted == "loop" else " - "
    return Formula(
        rf"N = \lambda \cdot \left({stay}\right)",
        rf"{num(law.rate_rps, 5)} \cdot \left({sign.join(num(part, 5) for part in law.parts)}\right)"
        rf" = {num(law.requests)}",
        _(
            "Little's law (J. D. C. Little, Operations Research 9, 1961): requests are the rate (λ) times the mean "
            "seconds that each one is counted for."
        )
        + " "
        + source,
    )


def rate(c: Candidate, output_tokens: float) -> Formula | None:
    """Output tokens per second and GPU; None where the rate of requests is not known."""
    if c.throughput_rps is None:
        return None
    return Formula(
        r"\frac{\text{tokens/s}}{\text{GPU}} = \frac{\lambda \cdot O}{\text{GPUs}}",
        rf"\frac{{{num(c.throughput_rps)} \cdot {num(output_tokens)}}}{{{c.gpus}}}"
        rf" = {num(c.throughput_rps * output_tokens / c.gpus)}",
        _("Requests finished per second (λ) times their mean output tokens (O), over all GPUs of the deployment."),
    )


def ttft(c: Candidate) -> Formula | None:
    """Time to first token as the sum of what a request waits for; None where it is not known."""
    if c.ttft_ms.mean is None:
        return None
    sent = r" + t_{KV\ transfer}" if c.prefill_pool is not None else ""
    known = [("P_{95}", c.ttft_ms.p95), ("P_{99}", c.ttft_ms.p99)]
    levels = "".join(rf",\quad {name}\ {num(value)}" for name, value in known if value is not None)
    waits = r"t_{look} + t_{budget} + t_{slot} + t_{others} + t_{own\ prompt}"
    return Formula(
        rf"\text{{TTFT}} = {waits}{sent} + t_{{fixed}}",
        rf"\text{{mean}}\ {num(c.ttft_ms.mean)}{levels}\ \text{{ms}}",
        _(
            "A sum of independent waits: until the scheduler looks, for room in the token budget, for a KV slot, for "
            "prompts in the same steps. Percentiles of the sum are put together from each part's own (closed form, "
            "checked against a step-by-step replay)."
        ),
    )


def tpot(c: Candidate) -> Formula | None:
    """Time per output token as the decode step and what prompts add to it; None where the two do not say it (drafts
    make several tokens a step).
    """
    step_ms, mean = c.breakdown.step_ms.get("decode"), c.tpot_ms.mean
    if step_ms is None or mean is None or mean < 0.999 * step_ms:
        return None
    return Formula(
        r"\text{TPOT} = t_{\text{decode step}} + t_{\text{other}}",
        rf"{num(step_ms)} + {num(max(mean - step_ms, 0.0))} = {num(mean)}\ \text{{ms}}",
        _(
            "A decode step makes one token of every request in flight; its parts are in the figure of the step. Other: "
            "what steps that also read prompts take longer and what is lost between steps, spread over the tokens."
        ),
    )


def memory_left(c: Candidate) -> Formula | None:
    """KV cache that the requests in flight leave free; None where it is not known how many would fit."""
    if not c.max_concurrency:
        return None
    kv = c.memory_gib.kv
    used = min(c.concurrency / c.max_concurrency, 1.0)
    source = (
        _("KV cache of the fullest GPU; both numbers are requests of mean length over the whole deployment.")
        if c.prefill_pool is None
        else _(
            "KV cache of the fullest GPU of the decode pool; both numbers are requests of mean length on all decode "
            "workers. Requests that wait or whose prompt is still read are not among them."
        )
    )
    at_once = set_to_run(c)
    if at_once is not None:
        source += " " + _("The engines are set to run {n} at once.").format(n=count(at_once))
    return Formula(
        r"\text{KV} \cdot \left(1 - \frac{\text{in flight}}{\text{memory holds}}\right)",
        rf"{num(kv)} \cdot \left(1 - \frac{{{num(c.concurrency)}}}{{{num(c.max_concurrency)}}}\right)"
        rf" = {num(kv * (1.0 - used))}\ \text{{GiB}}",
        source,
    )


def memory(m: MemoryGib) -> Formula:
    """Sum of the memory terms in GiB."""
    terms = [(name, getattr(m, key)) for key, (name, _help) in memory_terms().items() if getattr(m, key)]
    names = [text(name) for name, _v in terms]
    return Formula(
        rf"{text(_('total'))} = {total(names)}",
        rf"{total([num(v) for _name, v in terms])} = {num(m.total)} \le {num(m.capacity)}\ \text{{GiB}}",
        _(
            "Sum over the fullest rank. The engine gives the KV cache what the other terms leave "
            "of the memory it may use."
        ),
    )


def step(c: Candidate, phase: Phase) -> Formula:
    """Sum of the exposed times of a step."""
    terms = [t for t in c.breakdown.phase(phase) if t.exposed_ms > 0]
    shown, rest = terms[:SHOWN_TERMS], terms[SHOWN_TERMS:]
    names = [text(term_name(t.term)) for t in shown]
    numbers = [num(t.exposed_ms) for t in shown]
    if rest:
        names.append(r"\dots")
        numbers.append(num(sum(t.exposed_ms for t in rest)))
    step_ms = c.breakdown.step_ms.get(phase, sum(t.exposed_ms for t in terms))
    return Formula(
        rf"t_{{\text{{step}}}} = {total(names)}",
        rf"{total(numbers)} = {num(step_ms)}\ \text{{ms}}",
        _(
            "Longest chain of dependent work: each operator's time from its measured curve (a fixed latency plus a "
            "smooth roofline of arithmetic and bandwidth), less what runs at the same time as other work."
        ),
    )
