"""``python -m planner.ui.locale``: collects the strings of the pages into every catalogue and compiles it."""

from __future__ import annotations

from planner.ui.i18n import LOCALES
from planner.ui.locale import missing, path, renew

for _folder in LOCALES.values():
    _left = renew(_folder)
    print(f"{path(_folder)}: {_left} to translate")
    for _message in missing(_folder):
        print(f"  {_message.id!r}")
