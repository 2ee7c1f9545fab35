"""Which names are offered in place of one that is not known."""

from __future__ import annotations

import pickle

import pytest
from pydantic import BaseModel

from planner.catalog.validation import validate
from planner.cli.app import run
from planner.errors import (
    LISTED_BY,
    MOST_NAMES,
    InfeasibleError,
    InputError,
    UnknownNameError,
    UnsupportedArchitectureError,
)

NAMES = ("rtx-4090", "rtx-5090", "h100-sxm", "l40s")


def test_a_list_that_is_cut_says_how_many_more_there_are_and_keeps_the_nearest() -> None:
    names = [f"{letter}{letter}-{i}" for letter in "bcdefgh" for i in range(2)] + ["zz-nopq-99"]
    said = str(UnknownNameError("node", "nope", names, LISTED_BY["node"]))
    assert said.startswith("node: got 'nope'; allowed: zz-nopq-99, ")
    assert said.endswith(f" and {len(names) - MOST_NAMES} more, listed by planner catalog nodes")
    assert said.count(", ") == MOST_NAMES  # the names, and what lists them
    assert str(UnknownNameError("flag", "nope", names)).endswith(" and 3 more")
    assert "more" not in str(UnknownNameError("node", "zzz", NAMES, LISTED_BY["node"]))


def test_further_errors_are_counted_where_they_are_not_named() -> None:
    class Five(BaseModel):
        a: int
        b: int
        c: int
        d: int
        e: int

    with pytest.raises(InputError) as raised:
        validate(Five, {}, "file.yaml")
    assert raised.value.allowed == "this key is required (and 4 more errors: b, c, d and 1 more)"
    with pytest.raises(InputError) as raised:
        validate(Five, {"e": 1}, "file.yaml")
    assert raised.value.allowed == "this key is required (and 3 more errors: b, c, d)"


@pytest.mark.parametrize("command", LISTED_BY.values())
def test_what_lists_the_names_does_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()[1:]) == 0
    assert len(capsys.readouterr().out.splitlines()) > MOST_NAMES


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


@pytest.mark.parametrize(
    "error",
    [
        InputError("slo.tpot_ms", -1, "above 0"),
        UnknownNameError("node", "h100-sxmm", NAMES),
        UnsupportedArchitectureError(["model_type"], "not understood"),
        InfeasibleError("nothing fits"),
    ],
)
def test_an_error_crosses_to_another_process(error) -> None:
    came = pickle.loads(pickle.dumps(error))
    assert (type(came), str(came), vars(came)) == (type(error), str(error), vars(error))
