"""Prefill and decode together or in separate pools: the map over prompt length and load."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.ui.figures.common import CONFIG
from planner.ui.figures.latency import EQUAL, split_heatmap
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.numbers import count, percent, sig
from planner.ui.sections.how import how
from planner.ui.sections.load_data import FACTORS, Cell, scaled, split_map
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, sentence
from planner.ui.words import serving_help


def show(subject: Subject) -> None:
    """A button, then the map; it takes two plans a cell."""
    st.subheader(
        _("When do separate pools pay?"),
        help=serving_help(),
        anchor=False,
    )
    if scaled(subject.scenario, "agg", 1.0, 1.0) is None:
        st.caption(_("Measured lengths and traces have no one scale, so there is no map for them."))
        return
    if not subject.scenario.hardware.candidates:
        st.caption(_("This scenario allows separate pools only."))
        return
    key = f"load.split.{subject.key.split('.')[0]}"
    if not st.session_state.get(key):
        st.markdown(
            _(
                "Plans both ways for prompts and loads of {factors} times this scenario's: {n} plans, kept once made."
            ).format(factors=listed(f"{f:g}" for f in FACTORS), n=2 * len(FACTORS) ** 2)
        )
        st.button(
            _("Work out the map"), icon=":material/grid_on:", key="load.split.start", on_click=_start, args=(key,)
        )
        return
    text = _("Planning both ways …")
    bar = st.progress(0.0, text)

    def tick(part: float) -> None:
        bar.progress(min(part, 1.0), text)

    cells = split_map(subject.scenario, subject.setup.catalog, tick)
    bar.empty()
    st.markdown(answer(cells))
    open_load = subject.setup.rate_rps is not None
    st.plotly_chart(
        split_heatmap(cells, _("Requests per second") if open_load else _("Requests in flight")),
        config=CONFIG,
        key="load.split.map",
        alt=_("What separate pools save, by prompt length and load"),
    )
    with st.expander(_("What decides, cell by cell"), key="load.split.reasons"):
        table(_columns(cells), alt=_("What decides, cell by cell"))
    how(
        "load.split",
        {
            _("Saving"): Formula(
                r"1 - \frac{\$/\text{Mtok, separate pools}}{\$/\text{Mtok, together}}",
                "",
                _(
                    "Each cell is the best plan of each kind under this scenario's limits; GPUs in place of dollars "
                    "where no price is known. Hover for the deployments and what binds them."
                ),
            )
        },
    )


def _start(key: str) -> None:
    st.session_state[key] = True


def _columns(cells: list[Cell]) -> dict[str, list[Any]]:
    return {
        _("Input tokens × load"): [f"{count(round(c.input_tokens))} × {sig(c.load)}" for c in cells],
        _("Separate pools cost"): [None if c.saving is None else against(c.saving) for c in cells],
        _("What decides"): [sentence(c.reason) for c in cells],
    }


def against(saving: float) -> str:
    """What separate pools cost against serving together."""
    if abs(saving) < EQUAL:
        return _("the same")
    text = _("{share} less") if saving > 0 else _("{share} more")
    return text.format(share=percent(abs(saving)))


def answer(cells: list[Cell]) -> str:
    """The map in one sentence."""
    known = [c for c in cells if c.saving is not None]
    pays = [c for c in known if (c.saving or 0.0) > EQUAL]
    only = [c for c in cells if c.agg is None and c.split is not None]
    if not known and not only:
        return _("Nothing to compare: in no cell do both ways hold the limits.")
    return _(
        "Separate pools are cheaper in **{n}** of {all} cells and the only way that holds the limits in {only}."
    ).format(n=len(pays), all=len(cells), only=len(only))
