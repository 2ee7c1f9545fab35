"""Where shipped YAML lies: in the wheel, else in the repository; a user's own folder goes first."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml

CATALOG_VARIABLE = "PLANNER_CATALOG_DIR"


def data_folders() -> tuple[Path, ...]:
    """Folders that hold ``hardware_db``, the user's overlay first."""
    package = Path(__file__).resolve().parents[1]
    overlay = os.environ.get(CATALOG_VARIABLE)
    shipped = [root for root in (package / "_data", package.parent) if (root / "hardware_db").is_dir()]
    return (*([Path(overlay)] if overlay else []), *shipped[:1])


def data_file(name: str) -> Path | None:
    """The first existing file of that relative name; None where there is none."""
    return next((path for root in data_folders() if (path := root / name).is_file()), None)


def data_names(folder: str) -> list[str]:
    """Stems of the YAML files in a relative folder, over all data folders."""
    return sorted({path.stem for root in data_folders() for path in (root / folder).glob("*.yaml")})


@lru_cache(maxsize=64)
def read_data(path: Path) -> dict[str, Any]:
    """The content of a YAML file, read once."""
    return read_yaml(path)
