"""Fixtures that every test may use."""

from __future__ import annotations

import os

# As the command line does, before NumPy is loaded: what runs here and in processes started from here agrees to the last
# digit only with the same number of BLAS threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from planner.catalog import Catalog

ROOT = Path(__file__).resolve().parents[1]

# Examples have no deadline: a busy machine stops one for longer than any it takes.
settings.register_profile("planner", deadline=None)
settings.load_profile("planner")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of facts and measurements beside the project; skips where it is not there."""
    folder = ROOT.parent / "shared"
    if not (folder / "facts").is_dir():
        pytest.skip(f"no facts and measurements beside the project ({folder.name}/ is missing)")
    return folder


@pytest.fixture(scope="session")
def cat() -> Catalog:
    """The shipped catalogue."""
    from planner.catalog import catalog

    return catalog()
