"""Which engines run on a vendor's accelerators. Data with sources: hardware_db/engine_flags/vendors.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from planner.errors import InputError
from planner.export.flag_lists import TITLES, read_file
from planner.export.roles import Role

NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "huawei": "Huawei", "intel": "Intel Gaudi", "google": "Google TPU"}
OWN = "own"


@cache
def vendors() -> Mapping[str, Any]:
    """Vendors by engine, device variables and ports of workers that share a host."""
    data: Mapping[str, Any] = read_file("vendors")
    return data


def vendor_notes(role: Role, engine: str) -> Iterator[str]:
    """The comment owed where an engine runs on the role's accelerators by another package.

    Raises InputError where it does not run on them at all.
    """
    engines, name = vendors()["engines"], NAMES.get(role.vendor, role.vendor)
    found = engines[engine]["runs_on"].get(role.vendor)
    if found is None:
        able = [TITLES[e] for e, entry in engines.items() if role.vendor in entry["runs_on"]]
        where = f"the plan's accelerators ({role.node}) are of {name}, on which {' and '.join(able) or 'none'} run"
        raise InputError("--format", engine, where if len(able) != 1 else where + "s")
    if found != OWN:
        yield (
            f"{TITLES[engine]} runs on {name} accelerators through {found}, which has a version of its own and not "
            "every flag: check them against its documentation."
        )
