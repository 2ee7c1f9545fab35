"""The budget of one GPU by term and pipeline stage, and why memory holds more than a token uses."""

from __future__ import annotations

import streamlit as st

from planner.errors import InputError
from planner.evidence.memory_validate import memory_metrics
from planner.memory.budget import TERMS
from planner.search.plan_schema import MemoryGib
from planner.search.table import Workers
from planner.ui import formula
from planner.ui.figures.common import CONFIG
from planner.ui.figures.memory import memory_bars
from planner.ui.figures.memory_page import parameters_bars
from planner.ui.formula import Formula
from planner.ui.i18n import _, ngettext
from planner.ui.latex import num, text
from planner.ui.numbers import count, gib, percent
from planner.ui.sections import measured
from planner.ui.sections.charts import billions
from planner.ui.sections.errors import message
from planner.ui.sections.how import how
from planner.ui.sections.memory_data import Share, parameter_shares, stage_budgets
from planner.ui.sections.tables import table
from planner.ui.subject import PoolWorkers, Subject
from planner.ui.text import listed, paragraph
from planner.ui.words import engines, memory_terms

STARTED = "vllm"
"""The engine whose start-up logs are there."""


def stage_names() -> dict[str, str]:
    """Pipeline stages in words."""
    return {"first": _("First stage"), "middle": _("Middle stage"), "last": _("Last stage")}


def show(subject: Subject, w: PoolWorkers) -> None:
    """Budget of each kind of rank: bars, table, formula."""
    budgets = stage_budgets(subject.setup, w)
    names = stage_names() if len(budgets) > 1 else {"first": _("Every GPU")}
    bars = {names[role]: budget for role, budget in budgets.items()}
    st.subheader(
        _("Budget of one GPU, term by term"),
        help=_("What the engine reserves when it starts. The KV cache gets what the other terms leave.")
        + "\n\n"
        + "\n".join(f"- **{name}**: {meaning}" for name, meaning in memory_terms().values()),
        anchor=False,
    )
    st.markdown(_answer(subject, w, bars))
    st.plotly_chart(memory_bars(bars), config=CONFIG, key="memory.stages", alt=_("Memory of one GPU by term"))
    table(_columns(bars), alt=_("Memory of one GPU by term, GiB"))
    st.caption(_ranks(w, list(bars)))
    tightest = min(bars.values(), key=lambda m: m.kv)
    how("memory.budget", {_("Budget"): formula.memory(tightest) if tightest.kv >= 0 else _shortfall(tightest)})


MEASURED = {
    "available_kv_gib": "kv",
    "weights_gib": "weights",
    "peak_activation_gib": "workspace",
    "non_torch_gib": "runtime",
    "cuda_graph_gib": "graphs",
}
"""Metric of the start-up logs -> the term of the budget that it is held against."""


def show_certainty(subject: Subject) -> None:
    """How far budgets were off where start-ups were measured: what stands in place of an interval."""
    catalog = subject.setup.catalog
    try:
        with st.spinner(_("Predicting the measured start-ups …"), show_time=True):
            found = memory_metrics(measured.starts(catalog.version, catalog))
    except InputError as error:
        st.caption(message(error))
        return
    terms = memory_terms()
    offs = [
        _("{term} {share}").format(term=terms[term][0], share=percent(found[metric]["p90_ape"]))
        for metric, term in MEASURED.items()
        if metric in found
    ]
    said = [
        _("How wrong may this be? In {n} measured start-ups nine of ten predictions were nearer than: {terms}.").format(
            n=count(max(f["points"] for f in found.values())), terms=listed(offs)
        )
    ]
    engine = subject.scenario.engine.name
    if engine != STARTED:
        said.append(
            _("They are of {vllm}; none of {engine} is among them.").format(
                vllm=engines()[STARTED], engine=engines()[engine]
            )
        )
    st.caption(paragraph(said))


def _answer(subject: Subject, w: Workers, bars: dict[str, MemoryGib]) -> str:
    tightest = min(bars.values(), key=lambda m: m.kv)
    gpus = ngettext("one worker is {n} GPU", "one worker is {n} GPUs", int(w.layouts.gpus[0])).format(
        n=count(int(w.layouts.gpus[0]))
    )
    if tightest.kv < 0:
        return _("The other terms take **{over} more** than the GPU has: nothing is left for the KV cache.").format(
            over=gib(-tightest.kv)
        )
    return _("Weights take **{weights}** of {capacity}; **{kv}** ({share}) is left for the KV cache ({gpus}).").format(
        weights=gib(tightest.weights),
        capacity=gib(tightest.capacity),
        kv=gib(tightest.kv),
        share=percent(tightest.kv / tightest.capacity),
        gpus=gpus,
    )


def _columns(bars: dict[str, MemoryGib]) -> dict[str, list[object]]:
    terms = memory_terms()
    columns: dict[str, list[object]] = {_("Term"): [*(terms[t][0] for t in TERMS), _("Capacity")]}
    for name, budget in bars.items():
        columns[_("{stage}, GiB").format(stage=name)] = [*(getattr(budget, t) for t in TERMS), budget.capacity]
    columns[_("What it is")] = [*(terms[t][1] for t in TERMS), _("Memory that the GPU offers to programs.")]
    return columns


def _ranks(w: Workers, names: list[str]) -> str:
    """Which ranks of a worker each budget is of."""
    row = w.layouts.row(0)
    stages, size = int(row["pp"]), int(row["tp"]) * int(row["attention_dp"])
    if stages == 1:
        return ngettext(
            "The one rank of a worker.",
            "The fullest of the {n} ranks of a worker; they hold equal shares, but for rounding.",
            size,
        ).format(n=count(size))
    ends = {0: (0, size), 1: (size, (stages - 1) * size)} if len(names) > 2 else {0: (0, size)}
    ends[len(names) - 1] = ((stages - 1) * size, stages * size)
    return _("The fullest rank of each stage. {which}.").format(
        which=listed(
            _("{stage}: ranks {first} to {last}").format(stage=names[i], first=first, last=last - 1)
            for i, (first, last) in ends.items()
        )
    )


def _shortfall(m: MemoryGib) -> Formula:
    return Formula(
        rf"{text(_('KV cache'))} = {text(_('capacity'))} - {text(_('all other terms'))}",
        rf"{num(m.capacity)} - {num(m.capacity - m.kv)} = {num(m.kv)}\ \text{{GiB}}",
        _("Below zero: the engine does not start. Nothing is cut off at zero here."),
    )


def show_parameters(subject: Subject) -> None:
    """Total against active parameters."""
    shares = parameter_shares(subject.setup.spec)
    total, active = sum(s.total for s in shares), sum(s.active for s in shares)
    st.subheader(_("Why memory holds more than a token uses"), anchor=False)
    if active < 0.9 * total and any(s.tensor_class == "routed_experts" for s in shares):
        st.markdown(
            _(
                "A token passes through **{active}** of **{total}** parameters ({share}; the input embedding, where "
                "it is only looked up, not among them), but every expert has to be resident, because the next token "
                "may be routed to any of them. Memory follows the total, "
                "arithmetic follows the active part."
            ).format(active=billions(round(active)), total=billions(round(total)), share=percent(active / total))
        )
    else:
        st.markdown(
            _(
                "This model is dense: a token passes through all its parameters ({total}), apart from the rows of "
                "the embedding that it does not look up. In a mixture of experts memory would hold all experts "
                "and a token would use a few."
            ).format(total=billions(round(total)))
        )
    st.plotly_chart(
        parameters_bars(shares), config=CONFIG, key="memory.parameters", alt=_("Parameters in memory and in use")
    )
    moe = next((f for f in subject.setup.spec.feed_forwards.values() if f.kind == "moe"), None)
    if moe is not None:
        how(
            "memory.parameters",
            {
                _("Routed experts in use"): Formula(
                    r"\text{active} = \text{routed} \cdot \frac{k}{E} + \text{everything else}",
                    rf"k = {moe.experts_per_token},\ E = {moe.experts}:\ "
                    rf"{num(active / 1e9)} = {num(_routed(shares) / 1e9)} \cdot"
                    rf" \frac{{{moe.experts_per_token}}}{{{moe.experts}}} + "
                    rf"{num((active - _routed(shares) * moe.experts_per_token / moe.experts) / 1e9)}\ \text{{billion}}",
                    _("k experts of E work on a token; counted over the model's own tensor list."),
                )
            },
        )


def _routed(shares: tuple[Share, ...]) -> float:
    return next((s.total for s in shares if s.tensor_class == "routed_experts"), 0.0)
