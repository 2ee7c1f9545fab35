"""Rent, own or API: the user's own prices, what each comes to, and from which load on it pays."""

from __future__ import annotations

import streamlit as st

from planner.economics.owning import (
    OwningCost,
    OwningInputs,
    api_bill,
    api_offers,
    owning_cost,
    owning_defaults,
    purchase_usd_per_gpu,
)
from planner.ui.figures.common import CONFIG
from planner.ui.figures.cost import cost_by_load, ways_bars
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import count, dollars, percent, sig
from planner.ui.phrases import translated
from planner.ui.sections import kept
from planner.ui.sections.catalogue.facts import status
from planner.ui.sections.cost_data import (
    Day,
    Deployed,
    Power,
    Way,
    bought,
    by_load,
    crossing,
    over_the_day,
    owned,
    per_mtok,
    rented,
)
from planner.ui.sections.how import how
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, pair, paragraph, plain, sentence

HOURS_A_DAY = 24


def show(subject: Subject, d: Deployed, power: Power | None, day: Day | None) -> None:
    """Inputs, then the three ways side by side: over the ``day`` where one is known, else at the planned load."""
    st.subheader(
        _("Rent, own or buy tokens?"),
        help=_("The same tokens three ways. Every price can be yours; they start at the catalogue's."),
        anchor=False,
    )
    ways: list[Way] = []
    left, middle, right = st.columns(3, gap="medium")
    with left, st.container(border=True):
        rent = _rent(subject, d)
    with middle, st.container(border=True):
        own, cost = _own(subject, d, power)
    with right, st.container(border=True):
        api = _api(subject, d)
    ways = [way for way in (rent, own, api) if way is not None and way.total > 0]
    if not ways:
        st.info(_("No price is known yet: put one in above."))
        return
    shown = ways if day is None else over_the_day(ways, day, _("Rent, autoscaled"))
    st.markdown(_answer(shown, d, day))
    st.plotly_chart(ways_bars(shown), config=CONFIG, key="cost.ways", alt=_("US dollars a day, by part"))
    _table(shown, {w.name: per_mtok(w, d.output_tokens_per_s) for w in ways}, d, day)
    how("cost.own", {_("Owning, per GPU-hour"): _own_formula(cost)})
    _break_even(ways, rent, own, api, d, day)


def _rent(subject: Subject, d: Deployed) -> Way | None:
    st.markdown(f"**{_('Rent')}**")
    hourly = subject.candidate.usd_per_hour
    start = None if hourly is None else hourly / d.gpus
    usd = kept.optional(
        f"rent.{d.accelerator}.{'' if start is None else f'{start:.4g}'}",
        _("US dollars per GPU-hour"),
        start,
        step=0.1,
        placeholder=_("not known"),
        help=_("Starts at the plan's price: yours on the left under Prices, else the catalogue's."),
    )
    st.caption(_("{n} GPUs, whole nodes and spares, every hour").format(n=count(d.gpus)))
    return rented(_("Rent"), _("rent"), d.gpus, usd) if usd else None


def _own(subject: Subject, d: Deployed, power: Power | None) -> tuple[Way | None, OwningCost | None]:
    st.markdown(f"**{_('Own')}**")
    prices, defaults = subject.setup.catalog.prices(), owning_defaults()
    known = purchase_usd_per_gpu(d.accelerator, prices)
    purchase = kept.optional(
        f"own.{d.accelerator}",
        _("US dollars per GPU, bought"),
        None if known is None else known[0],
        step=1000.0,
        placeholder=_("not known"),
        help=_("Without server and network. Source: {source}").format(
            source=plain(known[1]) if known else _("none known; put in your own")
        ),
    )
    with st.expander(_("Life, money, upkeep, power"), key="cost.own.inputs"):
        values = {
            name: kept.number(f"own.{name}", text, getattr(defaults, name).value, step=step, help=_note(defaults, name))
            for name, text, step in _owner_inputs()
        }
    if not purchase:
        st.caption(_("No purchase price is known for it."))
        return None, None
    if values["depreciation_years"] <= 0:
        st.warning(_("A life of more than 0 years is needed."))
        return None, None
    cost = owning_cost(
        OwningInputs(
            purchase,
            server_share=values["server_and_network_share_of_gpu_price"],
            years=values["depreciation_years"],
            residual_share=values["residual_share"],
            capital_rate_per_year=values["capital_rate_per_year"],
            maintenance_share_per_year=values["maintenance_share_per_year"],
            hosting_usd_per_kw_month=values["hosting_usd_per_kw_month"],
            electricity_usd_per_kwh=values["electricity_usd_per_kwh"],
            average_w=power.average_w / d.gpus if power else 0.0,
            provisioned_w=power.provisioned_w / d.gpus if power else 0.0,
        )
    )
    st.caption(_("comes to {usd} per GPU-hour").format(usd=plain(dollars(float(cost.total)))))
    if power is None:
        st.caption(_("Power is not known for it: hosting and electricity are left out."))
    return owned(_("Own"), _owner_parts(), d.gpus, cost), cost


def _note(defaults: object, name: str) -> str:
    """What an owner's input stands for, and how it is known."""
    one = getattr(defaults, name)
    return plain(paragraph((sentence(one.note), sentence(pair(status(one.status), translated(one.source))))))


def _owner_inputs() -> tuple[tuple[str, str, float], ...]:
    """Inputs of an owner: name in hardware_db/owning.yaml, label, step."""
    return (
        ("server_and_network_share_of_gpu_price", _("Server and network, part of the GPU price"), 0.05),
        ("depreciation_years", _("Years of use"), 0.5),
        ("residual_share", _("Value left at the end, part of the price"), 0.05),
        ("capital_rate_per_year", _("Cost of money, part a year"), 0.01),
        ("maintenance_share_per_year", _("Maintenance, part of the price a year"), 0.01),
        ("hosting_usd_per_kw_month", _("Hosting, US dollars per kW and month"), 10.0),
        ("electricity_usd_per_kwh", _("Electricity, US dollars per kWh"), 0.01),
    )


def _owner_parts() -> dict[str, str]:
    return {
        "depreciation": _("depreciation"),
        "capital": _("cost of money"),
        "maintenance": _("maintenance"),
        "hosting": _("hosting"),
        "electricity": _("electricity"),
    }


def _api(subject: Subject, d: Deployed) -> Way | None:
    st.markdown("**API**")
    offers = api_offers(subject.setup.spec.id, subject.setup.catalog.prices())
    start = (0.0, 0.0, 0.0)
    name = "none"
    if offers:
        position = st.selectbox(
            _("Price list"),
            range(len(offers)),
            format_func=lambda i: f"{offers[i].provider} · {offers[i].model}",
            key=f"cost.api.{subject.setup.spec.id}",
            help=_("Published prices of this model; the numbers below can be yours."),
        )
        one = offers[position]
        name = f"{one.provider}.{one.model}"
        start = (one.input, one.input if one.cached is None else one.cached, one.output)
    else:
        st.caption(_("No published price of this model is known; put one in to compare."))
    labels = (_("Input, $ / Mtok"), _("Cached input, $ / Mtok"), _("Output, $ / Mtok"))
    prices = [
        kept.number(f"api.{subject.setup.spec.id}.{name}.{i}", text, start[i], step=0.05)
        for i, text in enumerate(labels)
    ]
    bill = api_bill(d.input_tokens_per_s, d.output_tokens_per_s, d.cached_share, *prices)
    words = {"input": _("input tokens"), "cached": _("cached input tokens"), "output": _("output tokens")}
    return bought("API", words, bill) if any(prices) else None


def _answer(ways: list[Way], d: Deployed, day: Day | None) -> str:
    best = min(ways, key=lambda w: w.total)
    others = [
        _("{name} {usd}").format(name=w.name, usd=plain(dollars(HOURS_A_DAY * w.total))) for w in ways if w is not best
    ]
    if day is not None:
        sentence = (
            _(
                "Over the day, whose mean load is {share} of the busiest hour's, **{name}** is cheapest: **{usd} a "
                "day**, {mtok} per million output tokens (a day: {others})."
            )
            if others
            else _(
                "Over the day, whose mean load is {share} of the busiest hour's, **{name}** comes to **{usd} a day**, "
                "{mtok} per million output tokens."
            )
        )
    else:
        sentence = (
            _(
                "At the planned load all day and night **{name}** is cheapest: **{usd} a day**, {mtok} per million "
                "output tokens (a day: {others})."
            )
            if others
            else _(
                "At the planned load all day and night **{name}** comes to **{usd} a day**, {mtok} per million output "
                "tokens."
            )
        )
    return sentence.format(
        share="" if day is None else percent(day.share),
        name=best.name,
        usd=plain(dollars(HOURS_A_DAY * best.total)),
        mtok=plain(dollars(per_mtok(best, _mean_share(day) * d.output_tokens_per_s))),
        others=listed(others),
    )


def _mean_share(day: Day | None) -> float:
    """Mean load as a part of the planned one."""
    return 1.0 if day is None else day.share


def _table(ways: list[Way], planned: dict[str, float | None], d: Deployed, day: Day | None) -> None:
    """A row a way, over the day where one is known; ``planned``: dollars per million output tokens at the planned load
    of those that are told at it.
    """
    outputs, tokens = (
        _mean_share(day) * rate for rate in (d.output_tokens_per_s, d.input_tokens_per_s + d.output_tokens_per_s)
    )
    columns: dict[str, list[str | float | None]] = {
        _("Way"): [w.name for w in ways],
        _("$ / day"): [HOURS_A_DAY * w.total for w in ways],
        _("$ / Mtok out"): [per_mtok(w, outputs) for w in ways],
        _("$ / Mtok in + out"): [per_mtok(w, tokens) for w in ways],
    }
    if day is not None:
        columns[_("$ / Mtok out, busiest hour")] = [planned.get(w.name) for w in ways]
    table(columns, alt=_("Cost of each way"))
    notes = [
        _("Mtok: a million tokens. Out: the whole cost over output tokens; in + out: over input and output tokens.")
    ]
    if day is not None:
        notes.append(
            _(
                "What is not autoscaled is of fixed size and paid in every hour; electricity is counted at the draw of "
                "the busiest hour, at most too much."
            )
        )
    st.caption(paragraph(notes))


def _break_even(
    ways: list[Way], rent: Way | None, own: Way | None, api: Way | None, d: Deployed, day: Day | None
) -> None:
    st.subheader(
        _("From which load on does it pay?"),
        help=_(
            "GPUs cost the same at night. The average load over the day decides, as part of the load that this "
            "deployment is planned for."
        ),
        anchor=False,
    )
    pairs = [(fixed, api) for fixed in (rent, own) if fixed is not None and api is not None and api.total > 0]
    crossings: dict[str, float] = {}
    lines = []
    if day is not None:
        lines.append(_("The mean load of the day is **{share}** of the planned one.").format(share=percent(day.share)))
    for fixed, elastic in pairs:
        share = crossing(fixed, elastic)
        if share is None:
            continue
        if share <= 1:
            crossings[fixed.name] = share
            lines.append(
                _("{name} beats the API from **{share}** of the planned load on.").format(
                    name=fixed.name, share=percent(share)
                )
            )
        else:
            lines.append(
                _("{name} does not beat this API price even at full load: it costs {times} times as much.").format(
                    name=fixed.name, times=sig(share, 2)
                )
            )
    if rent is not None and own is not None and rent.total > 0:
        share = own.total / rent.total
        lines.append(
            _("Owning beats renting by the hour when the GPUs are needed **{share}** of the time or more.").format(
                share=percent(share)
            )
            if share <= 1
            else _("Owning costs more than renting even around the clock ({times} times).").format(times=sig(share, 2))
        )
    st.markdown("\n".join(f"- {line}" for line in lines))
    found = by_load(ways, d.output_tokens_per_s)
    if found.usd_per_mtok:
        st.plotly_chart(
            cost_by_load(found, crossings, None if day is None else day.share),
            config=CONFIG,
            key="cost.load",
            alt=_("Cost per million tokens by load"),
        )
    if pairs:
        fixed, elastic = pairs[0]
        how(
            "cost.load",
            {
                _("Break-even"): Formula(
                    r"u = \frac{\text{fixed}\ \$/\text{h}}{\text{API}\ \$/\text{h at the planned load}}",
                    rf"\frac{{{num(fixed.total)}}}{{{num(elastic.total)}}} = {num(fixed.total / elastic.total)}",
                    _(
                        "A fixed cost is paid every hour, an API only for the tokens used. Latency limits may differ "
                        "between the two."
                    ),
                )
            },
        )


def _own_formula(cost: OwningCost | None) -> Formula | None:
    if cost is None:
        return None
    parts = [float(getattr(cost, key)) for key in _owner_parts()]
    return Formula(
        r"\frac{P(1-r)}{L} + \frac{P(1+r)}{2}\,i + P\,m + \text{kW}_{prov}\,h + \text{kW}_{avg}\,e",
        rf"{' + '.join(num(p) for p in parts)} = {num(float(cost.total))}\ \$/\text{{h}}",
        _(
            "P: GPU with its part of server and network, r: part left after L years, i: cost of money, m: maintenance, "
            "h: hosting of provisioned power, e: electricity for average power (PUE included). Shipped starting values "
            "reproduce SemiAnalysis' $1.30 to $1.69 per H100-hour within 20 %."
        ),
    )
