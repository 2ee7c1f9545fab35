"""What a file of measurements is, told from its content."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from planner.errors import InputError
from planner.evidence.importers.document import parse_document
from planner.evidence.importers.reading import FORMATS, is_result
from planner.evidence.logs import log_engine
from planner.evidence.memory_logs import is_log_collection
from planner.evidence.memory_table import COLUMNS, is_memory_table
from planner.evidence.ops_validate import is_operator_table, operator_columns
from planner.evidence.published import is_published
from planner.evidence.runs import MEASURED, REQUIRED, is_end_to_end
from planner.scenario.load import read_text
from planner.units import MIB

MAX_PROFILE_BYTES = 512 * MIB
MAX_READ_WHOLE_BYTES = 64 * MIB


def kind_of(path: Path) -> str:
    """``memory``, ``e2e`` or ``operators`` for tables, ``results`` for a tool's report, ``log`` for a start-up log,
    ``published`` for a collection of published points, ``memory_logs`` for one of start-up memory figures.

    Raises InputError for anything else.
    """
    if is_operator_table(operator_columns(path)):
        return "operators"
    text = read_text(path, MAX_PROFILE_BYTES)
    try:
        header = next(csv.reader(io.StringIO(text[: text.find("\n") + 1] or text)), [])
    except csv.Error as error:
        raise InputError(path.name, str(error), "a table whose cells are shorter, a log or a result file") from None
    if is_memory_table(header):
        return "memory"
    if is_end_to_end(header):
        return "e2e"
    if len(text) <= MAX_READ_WHOLE_BYTES:
        if is_published(text):
            return "published"
        if is_log_collection(text):
            return "memory_logs"
        if text.lstrip()[:1] not in ("{", "[") and log_engine(text):
            return "log"
        if text.strip() and _reads(text, path.name):
            return "results"
        if log_engine(text):
            return "log"
    wanted = f"columns {', '.join(REQUIRED)} and {' or '.join(MEASURED)}; or {', '.join(COLUMNS)}"
    tools = f"a start-up log of vLLM, SGLang or TensorRT-LLM, or a result file of {', '.join(FORMATS[:-1])}"
    raise InputError(path.name, ", ".join(header[:12]) or "no header", f"needs {wanted}; or {tools}")


def _reads(text: str, name: str) -> bool:
    """Whether the text is a tool's report. Broken JSON or YAML is not, and its own error says where."""
    try:
        document = parse_document(text, name)
    except InputError:
        if text.lstrip()[:1] == "{":
            raise
        return False
    return is_result(document)
