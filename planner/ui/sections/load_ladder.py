"""The ladder: one worker at fixed concurrency, then one technique added at a time, replayed request by request."""

from __future__ import annotations

from collections import OrderedDict
from threading import Semaphore
from typing import Any

import streamlit as st

from planner.errors import PlannerError
from planner.replay.cluster import Progress
from planner.replay.generate import fixed_trace
from planner.search.ladder import Ladder, NothingToClimb, climb
from planner.ui.figures.common import CONFIG
from planner.ui.figures.ladder import RUNGS, ladder_figure, rung_name
from planner.ui.i18n import _
from planner.ui.numbers import count, duration, sig
from planner.ui.sections import errors
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import paragraph, plain, sentence

SIZES = (250, 500, 1000, 2000)
"""Requests of a trace that may be chosen: a replay runs on the server, so it is bounded."""
KEPT = 32
_turn = Semaphore(1)
"""Replays run one after another: each takes a core for seconds."""


def traces() -> dict[str, str]:
    """Fixed trace -> its name in words."""
    return {
        "short_qa": _("short questions and answers"),
        "long_document_qa": _("questions about long documents"),
        "long_reasoning": _("long chains of reasoning"),
    }


def show(subject: Subject) -> None:
    """Choice of trace and size, a button, then table and chart."""
    st.subheader(
        _("What does each technique bring?"),
        help=_(
            "A trace is replayed request by request on the best aggregated worker for it: first at fixed concurrency, "
            "then with one technique more in each row. Requests in flight per GPU stay the same."
        ),
        anchor=False,
    )
    names = traces()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        trace = st.selectbox(_("Trace"), list(names), index=1, format_func=lambda t: names[t], key="load.ladder.trace")
        size = st.select_slider(_("Requests"), SIZES, value=500, key="load.ladder.size")
        key = f"load.ladder.{subject.key.split('.')[0]}.{trace}.{size}"
        st.button(_("Replay"), icon=":material/play_arrow:", key="load.ladder.start", on_click=_start, args=(key,))
    if not st.session_state.get(key):
        return
    text = _("Replaying request by request …")
    bar = st.progress(0.0, text)
    seen = {"rung": -1, "done": 1 << 62}

    def tick(done: int, total: int) -> None:
        if done < seen["done"]:
            seen["rung"] += 1
        seen["done"] = done
        part = (max(seen["rung"], 0) + done / max(total, 1)) / RUNGS
        bar.progress(min(part, 1.0), text)

    try:
        found = _ladder(subject, trace, size, tick)
    except NothingToClimb as error:
        bar.empty()
        st.warning(_nothing(names[trace], error), icon=":material/block:")
        return
    except PlannerError as error:
        bar.empty()
        st.warning(errors.message(error), icon=":material/block:")
        return
    bar.empty()
    st.markdown(_answer(found))
    st.plotly_chart(
        ladder_figure(found), config=CONFIG, key="load.ladder.chart", alt=_("Output tokens per second and GPU")
    )
    table(_output(found), alt=_("The ladder"))
    st.caption(
        _(
            "Goodput counts requests within every limit of the scenario, and none where a limit on a mean is missed: "
            "it may fall while the output grows, where a technique or its routing makes some requests slower."
        )
    )
    table(_latencies(found), alt=_("Latencies of the ladder"))
    for note in found.notes:
        st.caption(plain(sentence(note)))
    with st.expander(_("What exactly was replayed?")):
        st.json([{"added": r.name, "identity": r.identity.model_dump(mode="json")} for r in found.rungs], expanded=1)


def _nothing(trace: str, error: NothingToClimb) -> str:
    """That it is the ladder's load that nothing serves, not the scenario's, safe for Markdown."""
    return paragraph(
        (
            _(
                "No aggregated deployment serves **the load of this ladder** ({trace}) within the limits of the "
                "scenario, so there is nothing to replay. The plan of your own load is not affected."
            ).format(trace=plain(trace)),
            plain(sentence(error.why)),
        )
    )


def _start(key: str) -> None:
    st.session_state[key] = True


@st.cache_resource(show_spinner=False)
def _kept() -> OrderedDict[tuple[str, str, str, int], Ladder]:
    """Ladders of all sessions, oldest first. Not kept by Streamlit's own cache, under which no progress can show."""
    return OrderedDict()


def _ladder(subject: Subject, trace: str, size: int, tick: Progress) -> Ladder:
    kept = _kept()
    key = (subject.scenario.to_yaml(), subject.setup.catalog.version, trace, size)
    if key not in kept:
        with _turn:
            found = climb(subject.scenario, fixed_trace(trace, size, 0), catalog=subject.setup.catalog, progress=tick)
        kept[key] = found
        while len(kept) > KEPT:
            kept.popitem(last=False)
    return kept[key]


def _answer(found: Ladder) -> str:
    first, best = found.rungs[0], max(found.rungs, key=lambda r: r.tokens_per_s_per_gpu)
    return _("**{times} times** the output per GPU with {name}, on a trace of {n} requests.").format(
        times=sig(best.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu),
        name=rung_name(best.name),
        n=count(found.requests),
    )


def _output(found: Ladder) -> dict[str, list[Any]]:
    return {
        _("Added"): [rung_name(r.name) for r in found.rungs],
        _("GPUs"): [r.gpus for r in found.rungs],
        _("In flight"): [r.concurrency for r in found.rungs],
        _("Replayed"): [r.requests for r in found.rungs],
        _("Tokens/s per GPU"): [r.tokens_per_s_per_gpu for r in found.rungs],
        _("Requests/s"): [r.summary["throughput_rps"] for r in found.rungs],
        _("Goodput, req/s"): [r.summary["goodput_rps"] for r in found.rungs],
    }


def _latencies(found: Ladder) -> dict[str, list[str]]:
    def time(metric: str, *levels: str) -> list[str]:
        return [" / ".join(duration(r.summary[metric][level]) for level in levels) for r in found.rungs]

    return {
        _("Added"): [rung_name(r.name) for r in found.rungs],
        _("First token, p50 / p99"): time("ttft_ms", "p50", "p99"),
        _("Between tokens, p50 / p99"): time("tbt_ms", "p50", "p99"),
        _("Whole request, p99"): time("e2e_ms", "p99"),
    }
