from hypothesis import given
from hypothesis import strategies as st

from planner.scenario.differences import differences, flat

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


def test_lists_of_mappings_go_by_index_and_other_lists_stay_whole() -> None:
    assert flat({"a": [{"b": 1}, {"b": 2}], "c": [1, 2], "d": {"e": {"f": 3}}}) == {
        "a.0.b": 1,
        "a.1.b": 2,
        "c": [1, 2],
        "d.e.f": 3,
    }


@given(MAPPINGS, MAPPINGS)
def test_differences_are_those_keys_whose_values_differ(a: dict[str, object], b: dict[str, object]) -> None:
    found = differences(a, b)
    assert differences(a, a) == {}
    for key in {*a, *b}:
        assert (key in found) == (a.get(key) != b.get(key))
    assert {k: (y, x) for k, (x, y) in found.items()} == differences(b, a)
