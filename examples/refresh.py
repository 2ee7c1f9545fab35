"""Brings the examples that hold results in step with the code: procurement.xlsx and the outputs of notebook.ipynb.

    python examples/refresh.py            write them anew
    python examples/refresh.py --check    only say which are out of date, exit code 1 where one is

``make docs`` runs it. Needs the [sheet] extra; the notebook is executed here, cell by cell, without Jupyter.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import math
import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORKBOOK, NOTEBOOK = HERE / "procurement.xlsx", HERE / "notebook.ipynb"
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
CLOSE = 1e-4
"""Numbers further apart than this, relatively, are other numbers; the notebook prints some with six digits."""


def workbook(path: Path) -> None:
    """The comparison that examples/procurement.py makes, as ``path``."""
    from planner import sheet
    from planner.export.workbook.comparison import write_comparison

    options = runpy.run_path(str(HERE / "procurement.py"))["options"]()
    write_comparison(sheet.plan_table(options), path)


def values(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every sheet's cells: what tells two workbooks apart (a file also holds the time at which it was written)."""
    import openpyxl

    book = openpyxl.load_workbook(path)
    return {name: list(book[name].iter_rows(values_only=True)) for name in book.sheetnames}


def notebook() -> str:
    """The notebook with its code run from top to bottom and the outputs of that run."""
    import pandas

    document: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    # as wide as a page, however narrow the terminal
    width = pandas.option_context("display.width", 100, "display.max_columns", 20)
    with contextlib.chdir(HERE), width:
        for cell in document["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell["execution_count"] = number
                cell["outputs"] = _run("".join(cell["source"]), names, number)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _run(code: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Outputs of one cell: what it prints, then the value of its last line where that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "notebook", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown = {"text/html": value._repr_html_().splitlines(keepends=True), **shown}
        outputs.append({"data": shown, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def alike(old: str, new: str) -> bool:
    """The same words, and numbers that agree to :data:`CLOSE`: the last digits of a sum depend on the machine."""
    ours, theirs = (NUMBER.split(text) for text in (old, new))
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours[1::2], theirs[1::2], strict=True)
    return ours[::2] == theirs[::2] and all(math.isclose(float(a), float(b), rel_tol=CLOSE) for a, b in pairs)


def outdated() -> dict[Path, bytes]:
    """What the files should hold that are not what the code makes now."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / WORKBOOK.name
        workbook(made)
        found = {}
        if not WORKBOOK.exists() or not alike(repr(values(WORKBOOK)), repr(values(made))):
            found[WORKBOOK] = made.read_bytes()
    text = notebook()
    if not alike(NOTEBOOK.read_text(encoding="utf-8"), text):
        found[NOTEBOOK] = text.encode()
    return found


def main() -> int:
    for name in [name for name in os.environ if name.startswith("PLANNER_")]:
        del os.environ[name]  # the examples are those of the shipped catalogue
    found = outdated()
    if "--check" in sys.argv[1:]:
        for path in found:
            print(f"out of date: examples/{path.name} (python examples/refresh.py)")
        return int(bool(found))
    for path, content in found.items():
        path.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
