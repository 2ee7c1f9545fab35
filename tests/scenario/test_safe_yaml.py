"""YAML from strangers: no tags, no repeated keys, bounded; and YAML 1.2 scalars."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.scenario.safe_yaml import MAX_SCENARIO_BYTES, dump_yaml, load_yaml

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
    | st.sampled_from(["no", "1e3", "010", "1:30", "0x1F", "2025-01-01", "~", "null", "true", "<<", "=", "1_000"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdefg_1", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_round_trip(data: Any) -> None:
    assert load_yaml(dump_yaml(data), "x") == data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("no", "no"),
        ("on", "on"),
        ("010", "010"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        ("2025-01-01", "2025-01-01"),
        ("true", True),
        ("~", None),
        ("-2.5", -2.5),
        (".5", 0.5),
    ],
)
def test_scalars_are_yaml_1_2(text: str, value: Any) -> None:
    read = load_yaml(text, "x")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "a: !!python/name:os.system",
        "a: !include other.yaml",
        "a: 1\na: 2",
        "x: {b: 1, b: 2}",
        "a: [1, 2",
        "a: b: c",
        "a: *nowhere",
        "? [1]\n: 2",
        "--- 1\n--- 2",
        "\x00",
        "a: !!int x",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(text, "here")
    assert caught.value.field == "here"
    assert "\n" not in str(caught.value)


def test_bounded() -> None:
    with pytest.raises(InputError, match="bytes"):
        load_yaml("a" * (MAX_SCENARIO_BYTES + 1), "x")
    with pytest.raises(InputError, match="nest"):
        load_yaml("[" * 200_000, "x")
    with pytest.raises(InputError, match="levels"):
        load_yaml("[" * 100 + "]" * 100, "x")
    with pytest.raises(InputError, match="levels"):
        load_yaml("\n".join(" " * i + "a:" for i in range(100)), "x")
    laughs = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match="nodes"):
        load_yaml("\n".join(laughs), "x")


def test_anchors_are_welcome() -> None:
    assert load_yaml("a: &x {k: 1}\nb: *x\nc: {<<: *x, j: 2}", "x")["c"] == {"k": 1, "j": 2}
