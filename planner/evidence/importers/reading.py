"""From a file to examined records: the one format that recognises the content reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from planner.errors import InputError
from planner.evidence.importers import (
    genai_perf,
    guidellm,
    inference_perf,
    inferencex,
    plain_csv,
    sglang_bench,
    trtllm_bench,
    vllm_bench,
)
from planner.evidence.importers.checks import examine
from planner.evidence.importers.document import Document, parse_document, read_document
from planner.evidence.importers.record import BenchRecord

READERS: tuple[ModuleType, ...] = (
    guidellm,
    trtllm_bench,
    inference_perf,
    inferencex,
    sglang_bench,
    vllm_bench,
    genai_perf,
    plain_csv,
)
FORMATS = tuple(reader.NAME for reader in READERS)


@dataclass(frozen=True)
class ImportedFile:
    """A file's records in order, refused ones included."""

    name: str
    format: str
    records: tuple[BenchRecord, ...]

    @property
    def evidence(self) -> tuple[BenchRecord, ...]:
        """Records that are not refused."""
        return tuple(r for r in self.records if not r.refused)


def read_results(path: Path) -> ImportedFile:
    """The records of a result file.

    Raises InputError where no format recognises it, and where not one of its records is evidence.
    """
    return _import(read_document(path))


def results_of(content: str, name: str = "text") -> ImportedFile:
    """The records in the text of a result file; errors as :func:`read_results`."""
    return _import(parse_document(content, name))


def is_result(document: Document) -> bool:
    """Whether a format recognises a document. Raises InputError for records that a tool's summary stands for."""
    return _reader(document) is not None


def _reader(document: Document) -> ModuleType | None:
    if genai_perf.is_per_request(document):
        raise InputError(
            document.name, "AIPerf's records of single requests", "its summary: profile_export_aiperf.json"
        )
    return next((reader for reader in READERS if reader.recognise(document)), None)


def _import(document: Document) -> ImportedFile:
    reader = _reader(document)
    if reader is None:
        raise InputError(document.name, document.text[:40], f"a result file of one of: {', '.join(FORMATS)}")
    records = tuple(examine(r) for r in reader.read(document))
    if not records:
        raise InputError(document.name, "no record", "a result file with at least one run")
    if all(r.refused for r in records):
        reasons = "; ".join(dict.fromkeys(r.refused for r in records))
        raise InputError(document.name, f"{len(records)} runs", f"not evidence: {reasons}")
    return ImportedFile(document.name, records[0].format, records)
