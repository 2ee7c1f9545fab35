"""Tables of scenarios: a row in, the same row with its answer out; a bad row keeps its place and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.errors import InputError, PlannerError
from planner.search.record import RESULT_COLUMNS, Record, blank, record
from planner.sheet.rows import by_column, check_columns, check_once, question

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 10_000
Progress = Callable[[int, int], None]


def plan_table(rows: Any, progress: Progress | None = None) -> Any:
    """Plans every row of a table of scenarios; columns: :data:`planner.sheet.rows.COLUMNS`.

    ``rows`` is a pandas DataFrame, a list of mappings, or a rectangle of cells (list of lists) whose first row holds
    the column names, as Excel's Python cells, xlwings and LibreOffice hand over ranges. The answer has the same form:
    the columns given, then :data:`planner.search.record.RESULT_COLUMNS`. A row that cannot be read, or that nothing
    serves, keeps its place with ``status`` and ``message``. Raises InputError only for what is no table, for columns
    that do not exist or are there twice, and for more than 10,000 rows.
    """
    names, records = _records(rows)
    check_columns(names)
    if len(records) > MAX_ROWS:
        raise InputError("rows", len(records), f"at most {MAX_ROWS:,} rows; planner.sweep takes more")
    inputs = [n for n in names if n not in RESULT_COLUMNS]
    out = []
    for done, row in enumerate(records, start=1):
        out.append({n: row.get(n) for n in inputs} | answer(row))
        if progress is not None:
            progress(done, len(records))
    return _like(rows, [*inputs, *RESULT_COLUMNS], out)


def answer(row: Mapping[str, Any]) -> Record:
    """The result columns of one row of scenarios."""
    from planner.scenario.load import check_names, scenario_from_data
    from planner.search.planning import plan

    try:
        from planner.catalog import catalog

        scenario = scenario_from_data(question(row))
        check_names(scenario, catalog())
        return record(plan(scenario))
    except InputError as error:
        return blank("error", str(by_column(error, row)))
    except PlannerError as error:
        return blank("error", str(error))


def candidates_table(model: str, node: str, rate_rps: float, input_tokens: int, output_tokens: int, **more: Any) -> Any:
    """The candidates of one scenario as a rectangle of cells with a header, best first.

    ``more`` are further columns of :data:`planner.sheet.rows.COLUMNS`, such as ``tpot_limit_ms=50``. Raises
    InputError for a bad argument and InfeasibleError where nothing serves the load.
    """
    from planner.errors import InfeasibleError
    from planner.scenario.load import check_names, scenario_from_data
    from planner.search.headline import headline
    from planner.search.planning import plan

    given = {
        "model": model,
        "node": node,
        "rate_rps": rate_rps,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        **more,
    }
    check_columns(list(given))
    from planner.catalog import catalog

    try:
        scenario = scenario_from_data(question(given))
        check_names(scenario, catalog())
        found = plan(scenario)
    except InputError as error:
        raise by_column(error, given) from None
    if found.best is None:
        raise InfeasibleError(headline(found))
    rows = [record(found.model_copy(update={"candidates": (c,)})) for c in found.candidates]
    columns = ["rank", *(c for c in RESULT_COLUMNS if c not in ("status", "message"))]
    return [columns, *([i, *(row[c] for c in columns[1:])] for i, row in enumerate(rows, start=1))]


def _records(rows: Any) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Column names and rows of any of the three forms; places of columns are counted from 1."""
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        names = [str(c) for c in rows.columns]
        check_once((f"column {i}", name) for i, name in enumerate(names, start=1))
        return names, rows.to_dict("records")
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise _no_table(rows)
    rows = list(rows)
    if not rows:
        raise InputError("rows", "nothing", "at least one row")
    if all(isinstance(r, Mapping) for r in rows):
        names = list(dict.fromkeys(str(k) for r in rows for k in r))
        check_once((f"key {i}", name) for i, name in enumerate(names, start=1))
        return names, rows
    if all(isinstance(r, Sequence) and not isinstance(r, str) for r in rows):
        names = ["" if cell is None else str(cell).strip() for cell in rows[0]]
        kept = [(i, n) for i, n in enumerate(names) if n]
        check_once((f"column {i + 1}", name) for i, name in kept)
        return [n for _, n in kept], [{n: (r[i] if i < len(r) else None) for i, n in kept} for r in rows[1:]]
    raise _no_table(rows[0])


def _no_table(given: Any) -> InputError:
    return InputError("rows", type(given).__name__, "a DataFrame, a list of mappings, or a rectangle with a header")


def _like(rows: Any, columns: list[str], out: list[dict[str, Any]]) -> Any:
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        return _frame(rows, columns, out)
    first = next(iter(rows))
    if isinstance(first, Mapping):
        return out
    return [columns, *([r[c] for c in columns] for r in out)]


def _frame(rows: Any, columns: list[str], out: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(out, columns=columns, index=rows.index)
