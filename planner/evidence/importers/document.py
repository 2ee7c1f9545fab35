"""A report file as data: bounded in size, read with safe parsers, its syntax told from its content."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.scenario.load import read_text
from planner.scenario.safe_yaml import load_yaml
from planner.units import MIB

MAX_REPORT_BYTES = 64 * MIB
MAX_YAML_BYTES = 4 * MIB
MAX_RECORDS = 100_000

_YAML = re.compile(r"^(metrics|version|scenario|results|benchmarks):(\s|$)", re.MULTILINE)
CONSOLE_TITLE = re.compile(r"=+ ?Serving Benchmark Result ?=+")


@dataclass(frozen=True)
class Document:
    """``records`` are the JSON or YAML values of the file in order; ``rows`` the lines of a CSV file."""

    name: str
    text: str
    syntax: str
    """json, yaml, csv or console."""
    records: tuple[Any, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def read_document(path: Path) -> Document:
    """A report from a file. Raises InputError where it is too large or not in a syntax that is known."""
    return parse_document(read_text(path, MAX_REPORT_BYTES), path.name)


def parse_document(content: str, name: str) -> Document:
    """A report from its text."""
    start = content.lstrip()[:1]
    if not start:
        raise InputError(name, "", "a report; the file is empty")
    if CONSOLE_TITLE.search(content):
        return Document(name, content, "console")
    if start in "{[":
        return Document(name, content, "json", records=_json(content, name))
    if _YAML.search(content):
        return Document(name, content, "yaml", records=(load_yaml(content, name, MAX_YAML_BYTES),))
    try:
        rows = tuple(tuple(row) for row in csv.reader(io.StringIO(content)))
    except csv.Error as error:
        raise InputError(name, content[:40], f"a report in JSON, YAML or CSV ({error})") from None
    return Document(name, content, "csv", rows=_bounded(rows, name))


def _json(content: str, name: str) -> tuple[Any, ...]:
    """Records of JSON: one document, a list of them, or one document a line."""
    try:
        whole = json.loads(content)
    except RecursionError:
        raise InputError(name, content[:40], "JSON that is nested less deeply") from None
    except ValueError as error:
        return _lines(content, name, str(error))
    return _bounded(tuple(whole), name) if isinstance(whole, list) else (whole,)


def _lines(content: str, name: str, why: str) -> tuple[Any, ...]:
    records: list[Any] = []
    for i, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            told = f"line {i}: {error}" if records else why
            raise InputError(name, line[:40], f"JSON, or one JSON document a line ({told})") from None
    return _bounded(tuple(records), name)


def _bounded(records: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if len(records) > MAX_RECORDS:
        raise InputError(name, len(records), f"at most {MAX_RECORDS} records")
    return records
