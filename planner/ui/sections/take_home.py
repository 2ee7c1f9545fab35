"""Take it home: the plan, a workbook and a report as files; the launch script or manifest of one deployment, to read
and to download.

Files are built when their button is pressed. Only the script that is on show is built with the page: it is a few
kilobytes of text in milliseconds, and its refusal has to be said before anybody presses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import streamlit as st

from planner.catalog import Catalog
from planner.errors import InputError, PlannerError
from planner.export.formats import ENGINES, export_text, suffix
from planner.search.plan_schema import Candidate, Plan
from planner.ui import overlay, state
from planner.ui.answers import sized_answer
from planner.ui.current import Answered, Current
from planner.ui.i18n import _
from planner.ui.overlay import Entries
from planner.ui.phrases import translated
from planner.ui.sections import errors
from planner.ui.sidebar.files import file_stem
from planner.ui.text import pair, plain, sentence
from planner.ui.words import engines

MANIFESTS = {"leaderworkerset": "LeaderWorkerSet", "dynamo": "Dynamo", "llm-d": "llm-d"}
CODE_PX = 360
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def show(found: Current) -> None:
    """Everything to take away of the chosen candidate; where nothing serves the scenario, only words can be taken."""
    st.subheader(
        _("Take it home"),
        help=_("Of the deployment above. Files are made when you press; they are in English, as engines are."),
        anchor=False,
    )
    candidate = found.candidate if isinstance(found, Answered) else None
    _files(found, candidate)
    if candidate is not None:
        _start(found.plan, candidate)


def _files(found: Current, candidate: Candidate | None) -> None:
    plan, known = found.plan, found.catalog
    rank = 1 if candidate is None else candidate.rank

    def whole(rank: int) -> Plan:
        return sized_answer(found.scenario, known, rank)

    own = overlay.used(state.entries(), plan.scenario)
    with st.container(horizontal=True, gap="small"):
        _button(
            _("Plan (YAML)"),
            lambda: plan_text(whole(1), own),
            f"{_stem(plan)}.plan.yaml",
            "application/yaml",
            _(
                "Every candidate and the scenario; loads back here and on the command line, with the best one in front "
                "whichever was chosen here. A link keeps the choice."
            ),
        )
        if candidate is not None and _workbooks():
            _button(
                _("Workbook (Excel)"),
                lambda: workbook(whole(rank), known, rank),
                f"{_stem(plan)}.xlsx",
                _XLSX,
                _("Candidates, frontier and scenario, with costs as live formulas: change prices and see totals."),
            )
        for name, label, mime in (
            ("report-html", _("Report (HTML)"), "text/html"),
            ("report-md", _("Report (Markdown)"), "text/markdown"),
        ):
            _button(
                label,
                partial(_report, whole, name, rank, known),
                f"{_stem(plan)}{suffix(name)}",
                mime,
                _("Question, choice, frontier, reasons, formulas and evidence in one file, to read without this app."),
            )
    if candidate is not None and candidate != plan.best:
        st.caption(
            _(
                "Workbook, reports and scripts are of candidate {rank}, which you chose. The plan file holds every "
                "candidate and opens with the best; a link keeps the choice."
            ).format(rank=rank)
        )
    if not _workbooks():
        st.caption(plain(_("Workbooks need XlsxWriter, which the [sheet] extra of the package installs.")))


def _start(plan: Plan, candidate: Candidate) -> None:
    """One launch script or manifest: chosen, read, downloaded."""
    own = plan.scenario.engine.name
    offered = {own: _("{engine} script").format(engine=engines()[own])} | MANIFESTS
    offered |= {e: _("{engine} script").format(engine=engines()[e]) for e in ENGINES if e != own}
    key = f"start.{own}"
    if st.session_state.get(key) not in offered:
        st.session_state[key] = own
    name = st.pills(
        _("Start it with"),
        list(offered),
        key=key,
        format_func=offered.__getitem__,
        required=True,
        help=_(
            "A script starts any host of any worker, both pools of a disaggregated deployment included. "
            "LeaderWorkerSet, Dynamo and llm-d are manifests for Kubernetes. The first is of the engine planned with."
        ),
    )
    name = name or own
    try:
        text = export_text(plan, name, candidate.rank, catalog=state.catalog())
    except PlannerError as error:
        st.warning(refusal(error), icon=":material/block:")
        return
    script = name in ENGINES
    if script and name != own:
        st.caption(
            _("The numbers above are of {planned}; {engine} may need other settings.").format(
                planned=engines()[own], engine=engines()[name]
            )
        )
    with st.container(horizontal=True, gap="small"):
        _button(
            _("Launch script") if script else _("Manifest (YAML)"),
            text,
            f"{_stem(plan)}.{name}{suffix(name)}",
            "text/x-shellscript" if script else "application/yaml",
            _("{n} lines, to read below.").format(n=text.count("\n")),
        )
    with st.expander(_("Read it first"), key="read.export"):
        st.code(text, language="bash" if script else "yaml", height=CODE_PX)


def _button(label: str, data: str | Callable[[], str | bytes], name: str, mime: str, help: str) -> None:
    st.download_button(
        label, data=data, file_name=name, mime=mime, icon=":material/download:", on_click="ignore", help=help
    )


def _report(whole: Callable[[int], Plan], name: str, rank: int, known: Catalog) -> str:
    return export_text(whole(rank), name, rank, catalog=known)


def plan_text(plan: Plan, own: Entries) -> str:
    """The plan as YAML with the hardware of the session's own that it is of, so that it loads back anywhere."""
    return (plan.model_copy(update={"catalogue": own}) if own else plan).to_yaml()


def workbook(plan: Plan, known: Catalog, rank: int = 1) -> bytes:
    """The plan as an Excel workbook opening on candidate ``rank``, prices of ``known``; raises PlannerError."""
    from planner.export.workbook.plan_book import write_plan_book

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.xlsx"
        write_plan_book(plan, path, known, rank)
        return path.read_bytes()


@cache
def _workbooks() -> bool:
    return find_spec("xlsxwriter") is not None


def refusal(error: PlannerError) -> str:
    """Why an export is not possible, in one sentence, safe for Markdown: without the command line's option."""
    if isinstance(error, InputError):
        given = str(error.given)
        return plain(sentence(pair(engines().get(given) or translated(given), translated(error.allowed))))
    return errors.message(error)


def _stem(plan: Plan) -> str:
    return file_stem(plan.scenario.name)
