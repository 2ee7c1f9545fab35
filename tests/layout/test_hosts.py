"""What a worker takes of a node of several hosts."""

import numpy as np
import pytest

from planner.layout.hosts import even_hosts, footprint
from planner.layout.layouts import Layouts


@pytest.mark.parametrize(
    ("gpus", "taken"), [(1, 1), (2, 2), (3, 4), (4, 4), (8, 8), (12, 12), (16, 16), (18, 24), (36, 36), (32, 32)]
)
def test_a_worker_on_trays_of_four_keeps_what_no_other_has_room_on(gpus: int, taken: int) -> None:
    """18 ranks of one stage lie evenly on six trays, three on each; SGLang takes no other."""
    layouts = Layouts.of(attention_dp=gpus, ep=gpus)
    assert footprint(layouts, 4, 72, "sglang").tolist() == [taken]


def test_stages_lie_evenly_too() -> None:
    """Four stages of nine: a stage on three trays, three ranks on each."""
    layouts = Layouts.of(attention_dp=9, ep=9, pp=4)
    assert even_hosts(layouts, 4, "sglang").tolist() == [12]
    assert even_hosts(layouts, 4, "trtllm").tolist() == [9]


def test_a_node_that_is_one_host_has_no_such_rest() -> None:
    layouts = Layouts.of(tp=[1, 3, 6, 8, 16])
    assert np.array_equal(footprint(layouts, 8, 8, "vllm"), layouts.gpus)
