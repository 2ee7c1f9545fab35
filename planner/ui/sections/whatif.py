"""One variable at a time: what the answer would be for other values of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import streamlit as st

from planner.errors import InputError, PlannerError
from planner.scenario.schema import Scenario
from planner.ui import state
from planner.ui.answers import quiet_answer, side_by_side
from planner.ui.figures.common import CONFIG
from planner.ui.figures.sweep import Metric, metrics, sweep
from planner.ui.i18n import _
from planner.ui.numbers import NONE, percent, shown
from planner.ui.sections import errors
from planner.ui.sweep import MAX_POINTS, Point, Variable, points, popular, variables
from planner.ui.text import paragraph, plain, sentence
from planner.ui.words import node_label, placed, reason_name

if TYPE_CHECKING:
    import pandas as pd
    from streamlit.delta_generator import DeltaGenerator

_VARIABLE, _METRIC = "sweep.variable", "sweep.metric"


def show(scenario: Scenario) -> None:
    """Choice of the variable, the plot, the deployments behind it."""
    catalog = state.catalog()
    offered = variables(scenario, popular(scenario, catalog))
    drawn = metrics()
    left, right = st.columns(2, gap="medium")
    with left:
        chosen = _pick(_("Change"), _VARIABLE, {k: v.name for k, v in offered.items()})
    with right:
        metric = drawn[_pick(_("Look at"), _METRIC, {k: m.name for k, m in drawn.items()})]
    variable = offered[chosen]
    try:
        values = _values(variable)
    except PlannerError as error:
        st.error(errors.message(error), icon=":material/edit:")
        return
    said, drawing = st.empty(), st.empty()
    found: list[Point] = []
    for found in _as_they_come(scenario, variable, values, said):
        _draw(drawing, variable, found, metric, whole=len(found) == len(values))
    said.markdown(answer(variable, found))
    _table(variable, found)


def _draw(place: DeltaGenerator, variable: Variable, found: list[Point], metric: Metric, *, whole: bool) -> None:
    """The plot of what there is so far."""
    if not any(p.best is not None and metric.of(p.best) is not None for p in found):
        return
    place.plotly_chart(
        sweep(variable, found, metric),
        config=CONFIG,
        key=f"sweep.{variable.id}" if whole else None,
        alt=_("{metric} by {variable}").format(metric=metric.title, variable=variable.axis),
    )


def _pick(label: str, key: str, offered: dict[str, str]) -> str:
    now = st.session_state.get(key)
    # Put anew in every run, or the browser keeps the label of the language that it was chosen in.
    st.session_state[key] = now if now in offered else next(iter(offered))
    chosen: str = st.selectbox(label, list(offered), key=key, format_func=offered.__getitem__)
    return chosen


def _values(variable: Variable) -> tuple[Any, ...]:
    key = f"sweep.values.{variable.id}.{variable.now}"
    if not variable.numeric:
        nodes = state.catalog().node_ids()
        picked = st.multiselect(
            _("Values to try"),
            nodes,
            default=[v for v in variable.values if v in nodes],
            format_func=node_label,
            max_selections=MAX_POINTS,
            key=key,
        )
        return tuple(picked)
    text = st.text_input(
        _("Values to try"),
        value=", ".join(f"{v:g}" for v in variable.values),
        key=key,
        max_chars=300,
        help=_("Numbers with commas between them, at most {n}. The present value is {now}.").format(
            n=MAX_POINTS, now=plain(variable.show(variable.now))
        ),
    )
    return parsed(text, variable)


def parsed(text: str, variable: Variable) -> tuple[Any, ...]:
    """The numbers in ``text``, in order; raises InputError for what is none, or out of bounds."""
    out: set[Any] = set()
    for word in text.replace(";", ",").replace("，", ",").split(","):
        if not word.strip():
            continue
        try:
            value = float(word.replace(" ", ""))
        except ValueError:
            raise InputError(variable.name, word.strip(), _("numbers with commas between them")) from None
        if not variable.low <= value <= variable.high:
            bounds = _("between {low} and {high}").format(low=f"{variable.low:g}", high=f"{variable.high:g}")
            raise InputError(variable.name, word.strip(), bounds)
        out.add(round(value) if variable.whole else value)
    if not out:
        raise InputError(variable.name, text, _("give at least one value"))
    if len(out) > MAX_POINTS:
        raise InputError(variable.name, text, _("at most {n} values").format(n=MAX_POINTS))
    return tuple(sorted(out))


def _as_they_come(
    scenario: Scenario, variable: Variable, values: tuple[Any, ...], place: DeltaGenerator
) -> Iterator[list[Point]]:
    """The plans so far, in the order of the values, with a bar that fills; the present value, which is planned already,
    comes first.
    """
    catalog = state.catalog()
    found: dict[Any, Point] = {}
    first = sorted(values, key=lambda v: v != variable.now)
    with side_by_side() as pool:
        coming = points(scenario, variable, tuple(first), lambda s: quiet_answer(s, catalog), pool)
        for n, point in enumerate(coming, start=1):
            found[point.value] = point
            if n < len(values):
                place.progress(n / len(values), text=_("{n} of {all} plans").format(n=n, all=len(values)))
            yield [found[v] for v in values if v in found]


def answer(variable: Variable, found: list[Point]) -> str:
    """What the sweep says in one sentence, safe for Markdown."""
    costs = [(p, p.best.usd_per_mtok.output) for p in found if p.best is not None and p.best.usd_per_mtok.output]
    now = next((c for p, c in costs if p.value == variable.now), None)
    served = sum(p.best is not None for p in found)
    if not served:
        return _("None of these values can be served.")
    if len(costs) < 2:
        return _("{n} of {all} values can be served.").format(n=served, all=len(found))
    best, low = min(costs, key=lambda c: c[1] or 0.0)
    worst, high = max(costs, key=lambda c: c[1] or 0.0)
    if high < 1.005 * low:
        text = _("**{variable}** does not change the cost between {from_} and {to}.").format(
            variable=plain(variable.name),
            from_=plain(variable.show(found[0].value)),
            to=plain(variable.show(found[-1].value)),
        )
    else:
        text = _("**{variable}**: a token is cheapest at {best}, and costs {more} more at {worst}.").format(
            variable=plain(variable.name),
            best=plain(variable.show(best.value)),
            worst=plain(variable.show(worst.value)),
            more=percent(high / low - 1.0),
        )
    if now is not None and low < 0.995 * now:
        as_is = _("As it is, a token costs {more} more than at {best}.").format(
            more=percent(now / low - 1.0), best=plain(variable.show(best.value))
        )
        return paragraph((text, as_is))
    return text


def frame(variable: Variable, found: list[Point]) -> pd.DataFrame:
    """One row a value: the deployment, or why there is none."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "value": p.value if variable.numeric else variable.show(p.value),
                "deployment": placed(p.best) if p.best is not None else _why_not(p),
                "usd": _shown(p.best.usd_per_mtok.output) if p.best is not None else None,
                "gpus": p.best.gpus if p.best is not None else None,
                "ttft": _shown(p.best.ttft_ms.mean) if p.best is not None else None,
                "tpot": _shown(p.best.tpot_ms.mean) if p.best is not None else None,
            }
            for p in found
        ]
    )


def _shown(value: float | None) -> float | None:
    """Rounded as everywhere on the page: the browser only writes it."""
    return None if value is None else shown(value)


def _why_not(point: Point) -> str:
    if point.error is not None:
        return sentence(str(point.error))
    assert point.plan is not None
    misses = point.plan.nearest_misses
    return reason_name(misses[0].reason) if misses else _("Nothing serves this as asked")


def _table(variable: Variable, found: list[Point]) -> None:
    def number(title: str, width: int, help: str | None = None) -> Any:
        return st.column_config.NumberColumn(title, format="%.6g", width=width, help=help)

    key = f"sweep.rows.{variable.id}"
    picked = st.dataframe(
        frame(variable, found),
        hide_index=True,
        placeholder=NONE,
        key=key,
        on_select="rerun",
        selection_mode="single-row",
        column_order=("value", "usd", "gpus", "tpot", "ttft", "deployment"),
        column_config={
            "value": number(variable.name, 104, variable.axis)
            if variable.numeric
            else st.column_config.TextColumn(variable.name, width=104, help=variable.axis),
            "usd": number("$/Mtok", 72, _("US dollars per million output tokens.")),
            "gpus": st.column_config.NumberColumn(_("GPUs"), width=66, help=_("Of the whole deployment.")),
            "tpot": number("TPOT ms", 78, _("Mean time per output token after the first, in milliseconds.")),
            "ttft": number("TTFT ms", 76, _("Mean time to first token, in milliseconds.")),
            "deployment": st.column_config.TextColumn(_("Deployment"), width=480),
        },
    )
    rows = picked.selection.rows if picked is not None else []
    if rows and rows[0] < len(found):
        value = found[rows[0]].value
        st.button(
            _("Put {value} into the scenario").format(value=plain(variable.show(value))),
            icon=":material/input:",
            on_click=state.put,
            args=(variable.put(value),),
        )
    else:
        st.caption(_("Choose a row to put its value into the scenario."))
