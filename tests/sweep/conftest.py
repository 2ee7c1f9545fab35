"""Worker processes that start the same wherever these tests run."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def plain_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """A main module without a file: a process that is spawned runs the parent's again, and page tests that went before
    in this process leave a script there that only their own runner can run."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
