"""Names beside marks are clear of marks, names, lines and edges in every window."""

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.ui.figures import placing
from planner.ui.figures.placing import WINDOWS, Mark, places

part = st.floats(0.0, 1.0)
marks = st.lists(
    st.builds(Mark, st.tuples(part, part), st.floats(6.0, 30.0), st.sampled_from(["Attention", "路由专家"]))
)


@settings(max_examples=60, deadline=None)
@given(marks)
def test_names_are_clear_of_everything(shown):
    roof = [(0.0, 0.1), (0.6, 0.9), (1.0, 0.9)]
    found = places(shown, [roof], 4)
    assert len(found) <= 4
    for window in WINDOWS:
        boxes = {i: placing._text_box(shown[i], position, window) for i, position in found.items()}
        for i, box in boxes.items():
            assert placing._inside(box, window)
            assert not placing._crosses(box, roof, window)
            assert not any(placing._touch(box, placing._mark_box(m, window)) for j, m in enumerate(shown) if j != i)
            assert not any(placing._touch(box, other) for j, other in boxes.items() if j != i)


def test_a_mark_at_the_right_edge_is_named_on_its_left():
    assert places([Mark((0.97, 0.5), 20.0, "Dense feed-forward")], [], 3) == {0: "middle left"}


def test_a_name_without_room_is_left_out():
    crowd = [
        Mark((0.5, 0.5), 12.0, "Attention"),
        *(Mark((0.02 * x, 0.02 * y), 12.0) for x in range(51) for y in range(51)),
    ]
    assert places(crowd, [], 3) == {}
