"""Translation hook: every sentence on screen passes through ``_`` so that a language is a catalogue, not a
rewrite.

Sentences are translated whole and filled in afterwards: ``_("{n} GPUs").format(n=n)``.
"""

from __future__ import annotations

import gettext
from contextvars import ContextVar
from functools import cache
from pathlib import Path

DOMAIN = "planner"
LOCALE_DIR = Path(__file__).parent / "locale"
DEFAULT = "en"

_language: ContextVar[str] = ContextVar("planner_ui_language", default=DEFAULT)


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, LOCALE_DIR, languages=[language], fallback=True)


def use(language: str) -> None:
    """Language of everything the current thread says from now on; one without a catalogue speaks English."""
    _language.set(language)


def _(message: str) -> str:
    """``message`` in the language in use."""
    return _catalogue(_language.get()).gettext(message)


def ngettext(one: str, many: str, n: float) -> str:
    """``one`` or ``many`` by the language's plural rule for ``n``."""
    return _catalogue(_language.get()).ngettext(one, many, int(n) if float(n).is_integer() else 2)
