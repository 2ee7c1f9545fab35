"""Price of a token by kind, and energy: joules per token, average draw, power to provision."""

from __future__ import annotations

import streamlit as st

from planner.economics.energy import power_model
from planner.search.plan_schema import Candidate
from planner.ui.figures.common import CONFIG
from planner.ui.figures.cost import power_bars
from planner.ui.formula import Formula
from planner.ui.formula import cost as cost_formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import dollars, percent, sig, span
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.cost_data import Day, Deployed, Power, token_prices
from planner.ui.sections.how import how
from planner.ui.sections.load_sizing import day_price
from planner.ui.subject import Subject
from planner.ui.text import paragraph
from planner.units import KILO

HOURS_A_DAY = 24


def show_prices(subject: Subject, d: Deployed, day: Day | None) -> None:
    """US dollars per million tokens, input, cached, output: of the hour that is planned for, and over the day."""
    c = subject.candidate
    prices = token_prices(c, d)
    interval = span(c.interval.get("usd_per_mtok"))
    cards(
        (
            Card(
                _("$ per million output tokens"),
                dollars(prices.output_all),
                _("80 % within ${span}").format(span=interval) if interval else "",
                _(
                    "The whole cost, spares included, over the output tokens alone. Plans are ranked by it; plan file, "
                    "report and workbook mean the same by this name."
                ),
            ),
            Card(
                _("$ per million input tokens"),
                dollars(prices.input),
                _("{share} of them from the cache").format(share=percent(d.cached_share)),
                _(
                    "Prefill's share of the cost over all input tokens, cached ones included. Plan file, report and "
                    "workbook mean the same by this name."
                ),
            ),
            Card(
                _("$ per million uncached input tokens"),
                dollars(prices.uncached),
                _("a cached one costs $0") if d.cached_share else _("none is found in the cache"),
                _(
                    "The same cost over the input tokens that are computed: what a token found in the cache saves. To "
                    "set beside the input price of an API, which bills cached ones apart."
                ),
            ),
            Card(
                _("$ per million output tokens, input paid apart"),
                dollars(prices.output),
                _("decode's share"),
                _("Decode's share of the cost over the output tokens; together with the input price it is the whole."),
            ),
            *([] if day is None or day.scaled is None else [day_price(day.sizing)]),
        )
    )
    notes = []
    if day is not None and prices.output_all is not None:
        notes.append(
            _(
                "Prices are those of the busiest hour, which is planned for, where none says otherwise. The mean load "
                "of the day is {share} of it; what stands still at night costs as much."
            ).format(share=percent(day.share))
        )
    if interval and prices.input is not None:
        notes.append(_("The other prices are shares of the same cost: their intervals are as wide in proportion."))
    if notes:
        st.caption(paragraph(notes))
    if c.usd_per_hour is None:
        st.info(_("No price is known for this hardware: put yours in on the left, under Prices."))
    how("cost.tokens", {_("Cost"): cost_formula(c), _("Input and output"): _split(c, d)})


def _split(c: Candidate, d: Deployed) -> Formula | None:
    prices = token_prices(c, d)
    if prices.input is None or prices.output is None:
        return None
    return Formula(
        r"p_{in} = \frac{f\,C}{I}, \quad p_{uncached} = \frac{f\,C}{I(1-h)}, \quad p_{out} = \frac{(1-f)\,C}{O}",
        rf"p_{{in}} = {num(prices.input)},\quad p_{{uncached}} = {num(prices.uncached)},\quad "
        rf"p_{{out}} = {num(prices.output)}\ \$/\text{{Mtok}}",
        _(
            "C: rent, I and O: input and output tokens per second, h: part of input tokens found in the cache, f: "
            "prefill's part of the busy time (of separate pools: the prefill pool's part of the rent)."
        ),
    )


def show_energy(subject: Subject, d: Deployed, power: Power | None, day: Day | None) -> None:
    """Joules per token; what is drawn (where a day is known, in its busiest hour) and what must be provisioned."""
    st.subheader(
        _("Energy and power"),
        help=_(
            "What is drawn on average pays the electricity bill; what must be provisioned decides what fits the hall."
        ),
        anchor=False,
    )
    c = subject.candidate
    if power is None or c.joules_per_token is None:
        st.caption(_("The power of this accelerator is not sourced, so no energy is computed."))
        return
    interval = span(c.interval.get("joules_per_token"))
    tokens = d.input_tokens_per_s + d.output_tokens_per_s
    cards(
        (
            Card(
                _("Joules per output token"),
                sig(c.joules_per_token),
                _("80 % within {span}").format(span=interval) if interval else "",
                _("Average draw at the meter over output tokens per second."),
            ),
            Card(
                _("Joules per token, in and out"),
                sig(power.average_w / tokens if tokens else None),
                "",
                _("The same over input and output tokens together."),
            ),
            Card(
                _("Drawn on average"),
                f"{sig(power.average_w / KILO)} kW",
                (_("{kwh} kWh a day") if day is None else _("in the busiest hour; {kwh} kWh a day at most")).format(
                    kwh=sig(power.average_w / KILO * HOURS_A_DAY)
                ),
                _("At the meter: GPUs by how busy they are, the rest of the nodes, cooling."),
            ),
            Card(
                _("To provision"),
                f"{sig(power.provisioned_w / KILO)} kW",
                _("drawn: {share} of it").format(share=percent(power.average_w / power.provisioned_w)),
                _("From datasheets: every GPU at its TDP, the rest of the node at its maximum, facility overhead."),
            ),
        )
    )
    st.plotly_chart(power_bars(power), config=CONFIG, key="cost.power", alt=_("Power drawn and provisioned"))
    model = power_model()
    how(
        "cost.power",
        {
            _("Average draw"): Formula(
                r"\text{TDP} \big[(1-b)\,s_{idle} + b\,(s_{busy} + (s_{full} - s_{busy})\,a)\big] + "
                r"\text{rest}, \quad \times\ \text{PUE}",
                rf"s_{{idle}} = {num(model.loaded_idle_share_of_tdp.value)},\ "
                rf"s_{{busy}} = {num(model.busy_share_of_tdp.value)},\ "
                rf"s_{{full}} = {num(model.full_share_of_tdp.value)},\ "
                rf"\text{{PUE}} = {num(model.pue.value)}:\ {num(power.average_w / KILO)}\ \text{{kW}}",
                _(
                    "b: part of the time a step runs, a: how hard it works the GPU. Shares measured on H100 "
                    "(ML.ENERGY, gpu-burn), taken for other accelerators; hardware_db/power.yaml names each source."
                ),
            )
        },
    )
