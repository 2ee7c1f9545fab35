"""Translation: every sentence on screen passes through ``_``, so that a language is a catalogue, not a rewrite.

Sentences are translated whole and filled in afterwards: ``_("{n} GPUs").format(n=n)``. Catalogues are the files
``locale/<language>/LC_MESSAGES/planner.po``, compiled beside them (``python -m planner.ui.locale`` renews both).
"""

from __future__ import annotations

import gettext
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path

DOMAIN = "planner"
LOCALE_DIR = Path(__file__).parent / "locale"
DEFAULT = "en"
LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Language -> its own name."""
LOCALES = {"zh": "zh_CN"}
"""Language -> folder of its catalogue; English is written in the code."""

_language: ContextVar[str | None] = ContextVar("planner_ui_language", default=None)
_session: list[Callable[[], str | None]] = []


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    folder = LOCALES.get(language)
    if folder is None:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALE_DIR, languages=[folder])


def use(language: str) -> None:
    """Language of everything the current thread says from now on."""
    _language.set(language if language in LANGUAGES else DEFAULT)


def follow(ask: Callable[[], str | None]) -> None:
    """Where a thread that has not said :func:`use` learns its language: callbacks run before the page does."""
    _session[:] = [ask]


def language() -> str:
    """The language in use."""
    said = _language.get()
    if said is None:
        said = next((found for ask in _session if (found := ask())), DEFAULT)
    return said


def N_(message: str) -> str:
    """Marks a message for the catalogues without translating it yet."""
    return message


def _(message: str) -> str:
    """``message`` in the language in use."""
    return _catalogue(language()).gettext(message)


def ngettext(one: str, many: str, n: float) -> str:
    """``one`` or ``many`` by the language's plural rule for ``n``."""
    return _catalogue(language()).ngettext(one, many, int(n) if float(n).is_integer() else 2)
