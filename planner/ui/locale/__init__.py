"""The catalogues of translations, and what keeps them in step with the code (``python -m planner.ui.locale``).

Needs Babel, which only translators and tests need: the app reads the compiled catalogues with Python's own gettext.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog, Message

HERE = Path(__file__).parent
UI = HERE.parent
KEYWORDS = frozenset(("_", "ngettext", "N_"))


def template() -> Catalog:
    """Every translatable string of the pages and where it stands, those inside formatted strings included."""
    from babel.messages.catalog import Catalog

    # A fixed date: a catalogue changes when its messages do.
    found = Catalog(project="planner", charset="utf-8", creation_date=datetime(2026, 1, 1, tzinfo=UTC))
    for file in sorted(UI.rglob("*.py")):
        for message in messages(file.read_text(encoding="utf-8")):
            found.add(message, None, [(f"planner/ui/{file.relative_to(UI).as_posix()}", 0)])
    return found


def messages(code: str) -> Iterator[str | tuple[str, str]]:
    """The messages of a module in the order of its text; of ngettext both forms."""
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset)):
        if not isinstance(call.func, ast.Name) or call.func.id not in KEYWORDS:
            continue
        texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if call.func.id == "ngettext" and len(texts) == 2:
            yield texts[0], texts[1]
        elif call.func.id != "ngettext" and len(texts) == 1:
            yield texts[0]


def path(folder: str) -> Path:
    """The catalogue of a language."""
    return HERE / folder / "LC_MESSAGES" / "planner.po"


def read(folder: str) -> Catalog:
    """The catalogue of a language as it is written."""
    from babel.messages.pofile import read_po

    with path(folder).open("rb") as file:
        return read_po(file, locale=folder)


def compiled(catalogue: Catalog) -> bytes:
    """The same for gettext; fuzzy messages stay English."""
    from babel.messages.mofile import write_mo

    out = BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def missing(folder: str) -> list[Message]:
    """Messages of the code that the language lacks or only guesses."""
    known = read(folder)
    out = []
    for message in template():
        if not message.id:
            continue
        there = known.get(message.id, message.context)
        text = None if there is None else there.string
        texts = [text] if isinstance(text, str) else list(text or ())
        if there is None or there.fuzzy or not texts or not all(texts):
            out.append(message)
    return out


def renew(folder: str) -> int:
    """Brings the language's files in step with the code; how many messages are still to be translated."""
    from babel.messages.pofile import write_po

    known = read(folder)
    known.update(template(), no_fuzzy_matching=True, keep_user_comments=True)
    known.obsolete.clear()
    with path(folder).open("wb") as file:
        write_po(file, known, width=110, sort_output=True, omit_header=False, include_lineno=False)
    path(folder).with_suffix(".mo").write_bytes(compiled(read(folder)))
    return len(missing(folder))
