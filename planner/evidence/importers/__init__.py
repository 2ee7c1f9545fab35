"""Benchmark tools' result files as runs: told apart by content, read into one normal form, examined for traps."""

from planner.evidence.importers.reading import FORMATS, ImportedFile, read_results, results_of

__all__ = ["FORMATS", "ImportedFile", "read_results", "results_of"]
