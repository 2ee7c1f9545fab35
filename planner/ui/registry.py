"""The pages in the order of a session, in groups; a page is one line here and a module in ``planner/ui/pages`` with
``show()``.

A module is imported when its page is first opened, so that the first page does not wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import streamlit as st

from planner.ui.i18n import _


@dataclass(frozen=True)
class Entry:
    """A page: ``id`` is its module and its place in the address, ``title`` its name in the navigation, ``question``
    what it answers, ``icon`` a Material symbol.
    """

    id: str
    title: str
    question: str
    icon: str


def entries() -> dict[str, list[Entry]]:
    """Group -> its pages, in the language in use."""
    return {
        _("Answer"): [
            Entry("plan", _("Plan"), _("What would it take?"), "target"),
            Entry("compare", _("Compare and what-if"), _("What if one thing were different?"), "compare_arrows"),
        ],
        _("Look inside"): [
            Entry("memory", _("Memory and precision"), _("What fills a GPU, and what fits into the rest?"), "memory"),
            Entry("layout", _("Layout and topology"), _("Where do the ranks lie, and what do they send?"), "lan"),
        ],
        _("Load and cost"): [
            Entry("load", _("Load"), _("What happens when many ask at once?"), "groups"),
            Entry("cost", _("Cost and energy"), _("What does a token cost, and which way is cheapest?"), "payments"),
        ],
        _("What it stands on"): [
            Entry("evidence", _("Evidence"), _("How wrong may this be?"), "fact_check"),
            Entry("catalogue", _("Catalogue"), _("What is known about hardware and models?"), "inventory_2"),
        ],
    }


FIRST_PATH = "first"
"""Name of the page at the root: its own is free for the address that leads there."""


def pages() -> dict[str, list[st.Page]]:
    """The same for ``st.navigation``. The very first page is where a visitor arrives: it stands at the root, and its
    name as an address leads there (a page that no menu shows).
    """
    first = next(iter(entries().values()))[0].id
    groups = {
        group: [
            st.Page(
                _shower(e),
                title=e.title,
                icon=f":material/{e.icon}:",
                url_path=FIRST_PATH if e.id == first else e.id,
                default=e.id == first,
            )
            for e in members
        ]
        for group, members in entries().items()
    }
    root = next(iter(groups.values()))
    root.append(st.Page(_nothing, title=root[0].title, url_path=first, visibility="hidden"))
    return groups


def arrive(page: st.Page, groups: dict[str, list[st.Page]]) -> None:
    """Goes on to the page at the root where ``page`` is only its address."""
    root = next(iter(groups.values()))[0]
    if page.url_path == next(iter(entries().values()))[0].id:
        st.switch_page(root)


def _nothing() -> None:
    """Never drawn: :func:`arrive` goes on."""


def _shower(entry: Entry) -> Callable[[], None]:
    def show() -> None:
        st.title(f":gray[{entry.question}]", anchor=False)
        import_module(f"planner.ui.pages.{entry.id}").show()

    return show
