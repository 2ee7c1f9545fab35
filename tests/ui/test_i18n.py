"""The translation hook."""

import gettext

import pytest

from planner.ui import i18n
from planner.ui.words import servings


def test_english_without_a_catalogue():
    i18n.use("xx")
    assert i18n._("Plan") == "Plan"
    assert i18n.ngettext("{n} GPU", "{n} GPUs", 1) == "{n} GPU"
    assert i18n.ngettext("{n} GPU", "{n} GPUs", 2) == "{n} GPUs"
    i18n.use(i18n.DEFAULT)


def test_a_catalogue_speaks(monkeypatch: pytest.MonkeyPatch):
    class Shout(gettext.NullTranslations):
        def gettext(self, message: str) -> str:
            return message.upper()

    monkeypatch.setattr(i18n, "_catalogue", lambda language: Shout())
    assert servings()["agg"] == "AGGREGATED"
