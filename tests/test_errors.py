"""Which names are offered in place of one that is not known."""

from __future__ import annotations

import pytest

from planner.errors import UnknownNameError

NAMES = ("rtx-4090", "rtx-5090", "h100-sxm", "l40s")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("rtx-3090", "not known here; nearest: rtx-5090, rtx-4090"),
        ("rtx5090", "did you mean rtx-5090?"),
        ("h100_sxm", "did you mean h100-sxm?"),
        ("zzz", "allowed: h100-sxm, l40s, rtx-4090, rtx-5090"),
    ],
)
def test_another_number_is_no_slip(given: str, said: str) -> None:
    assert str(UnknownNameError("accelerator", given, NAMES)).endswith(said)
