from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import UnknownNameError
from planner.layout.enumeration import RejectedLayouts
from planner.layout.rules import RULES
from planner.search.fixes import MemoryTerms, fitting_alternative, latency_fix, memory_fix, nodes_fix
from planner.search.rejections import REASONS, Judge, from_layouts, group, merge, nearest_misses, number
from planner.ui import phrases
from planner.units import GIB

NAMES = ["TP1", "TP2", "TP4", "TP8"]


def judged() -> Judge:
    judge = Judge(4)
    judge.check("memory", [160.0, 90.0, 60.0, 40.0], 80.0)
    judge.check("slo_tpot", [10.0, 20.0, 55.0, 40.0], 50.0)
    return judge


def test_first_broken_limit_is_the_reason() -> None:
    found = judged().done()
    assert found.names == ("memory", "slo_tpot")
    assert found.code.tolist() == [0, 0, 1, -1]
    assert found.feasible.tolist() == [False, False, False, True]


def test_groups_name_the_nearest_miss_and_the_fix() -> None:
    entries = group(
        judged().done(), NAMES.__getitem__, {"memory": lambda i: f"fix of {NAMES[i]}"}, {"memory": lambda i: "weights"}
    )
    assert [(e.reason, e.count) for e in entries] == [("memory", 2), ("slo_tpot", 1)]
    assert entries[0].example == "TP2: needs 90 of 80 GiB on its fullest GPU"
    assert (entries[0].fix, entries[0].term, entries[0].unit) == ("fix of TP2", "weights", "GiB")
    assert entries[1].needed == 55.0
    assert entries[1].fix is None


def test_nan_is_a_failure() -> None:
    judge = Judge(2)
    judge.check("slo_ttft", [np.nan, 1.0], 2.0)
    entry = group(judge.done(), str)[0]
    assert (entry.count, entry.needed, entry.available) == (1, None, 2.0)
    assert "no steady state" in entry.example


def test_nearest_misses_prefer_what_passed_more() -> None:
    found = judged().done()
    assert nearest_misses(found, [1, 2, 4, 8]).tolist() == [2, 1, 0]
    assert nearest_misses(found, [1, 2, 4, 8], count=1).tolist() == [2]


def test_one_broken_limit_comes_before_two() -> None:
    judge = Judge(3)
    judge.check("slo_tpot", [60.0, 70.0, 40.0], 50.0)
    judge.check("nodes", [1.0, 1.0, 9.0], 4.0)
    found = judge.done()
    assert nearest_misses(found, [1, 1, 1]).tolist() == [0, 1, 2]
    assert nearest_misses(found, [1, 1, 1], twice=np.array([True, False, False])).tolist() == [1, 2, 0]


def test_unknown_reasons_and_names() -> None:
    with pytest.raises(UnknownNameError, match="memory"):
        Judge(1).check("memroy", 1, 2)
    pattern = re.compile(r"^[a-z][a-z0-9_]*$")
    assert all(pattern.match(name) for name in REASONS)
    assert all(pattern.match(rule.id) for rule in RULES)
    assert not set(REASONS) & {rule.id for rule in RULES}


def test_layout_rejections_take_the_same_form_and_merge() -> None:
    illegal = RejectedLayouts("not_whole_nodes", 3, 12.0, 8.0, "GPUs", "a worker of 12 GPUs …", "TP4 PP3", "a multiple")
    entries = from_layouts([illegal], "hgx-h100, vllm")
    assert entries[0].example == "TP4 PP3 on hgx-h100, vllm: a worker of 12 GPUs …"
    merged = merge([*entries, *entries])
    assert [(e.reason, e.count) for e in merged] == [("not_whole_nodes", 6)]


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200)), min_size=1, max_size=30))
def test_counts_add_up(rows: list[tuple[float, float]]) -> None:
    judge = Judge(len(rows))
    memory, ttft = np.array(rows).T
    judge.check("memory", memory, 80.0)
    judge.check("slo_ttft", ttft, 100.0)
    found = judge.done()
    assert found.feasible.sum() == ((memory <= 80) & (ttft <= 100)).sum()
    assert sum(e.count for e in group(found, str)) == (~found.feasible).sum()


def test_numbers_read_well() -> None:
    assert [number(v) for v in (226.75, 3.14159, 5.0, 12345.6, 0.001234)] == ["227", "3.14", "5", "12,346", "0.00123"]


class TestMemoryFix:
    terms = MemoryTerms(fixed=60 * GIB, kv=20 * GIB, capacity=80 * GIB, utilization=0.9, kv_bytes_per_value=2.0)

    def test_names_every_change_that_is_enough(self) -> None:
        text = memory_fix(self.terms, "TP8 fits (40 of 72 GiB)")
        assert text.startswith("short by 8 GiB per GPU")
        assert "gpu_memory_utilization 1.00 instead of 0.90" in text
        assert "KV cache in fp8" in text
        assert "60 % of the requests" in text
        assert text.endswith("TP8 fits (40 of 72 GiB)")

    def test_says_when_only_more_hardware_helps(self) -> None:
        heavy = MemoryTerms(fixed=200 * GIB, kv=1 * GIB, capacity=80 * GIB, utilization=0.9, kv_bytes_per_value=2.0)
        assert "nothing that was tried fits" in memory_fix(heavy)
        assert memory_fix(heavy, "TP4 fits") == "short by 129 GiB per GPU; TP4 fits"

    def test_utilisation_is_rounded_up(self) -> None:
        terms = MemoryTerms(fixed=72.1 * GIB, kv=0.0, capacity=80 * GIB, utilization=0.9, kv_bytes_per_value=1.0)
        assert "gpu_memory_utilization 0.91" in memory_fix(terms)


def test_smallest_alternative_that_fits() -> None:
    needed, capacity = np.array([160.0, 90.0, 60.0, 40.0]) * GIB, np.full(4, 72.0) * GIB
    assert fitting_alternative(needed, capacity, [1, 2, 4, 8], NAMES.__getitem__) == "TP4 fits (60 of 72 GiB)"
    assert fitting_alternative(needed, capacity / 10, [1, 2, 4, 8], NAMES.__getitem__) is None


def test_a_vast_fleet_is_no_example_of_what_reaches_a_limit() -> None:
    reached, gpus = [0.01, 0.04, 0.08, 0.3], [310_192, 15_280, 64, 8]
    assert latency_fix("TPOT", reached, 0.05, gpus, NAMES.__getitem__) is None, "what keeps the limit is vast"
    assert latency_fix("TPOT", reached, 0.05, [310_192, 96, 64, 8], NAMES.__getitem__) == "TP2 reaches a TPOT of 40 ms"
    said = latency_fix("TPOT", reached, 0.005, gpus, NAMES.__getitem__)
    assert said == "the smallest TPOT with at most 10,000 GPUs is 80 ms (TP4), against a limit of 5 ms"
    assert phrases.known(said.replace("TP4", "TP4 on dgx-h100"))
    assert latency_fix("TPOT", reached, 0.005, [20_000] * 4, NAMES.__getitem__) is None


def test_latency_and_nodes() -> None:
    reached = [0.08, np.nan, 0.055, 0.3]
    gpus = [1, 2, 4, 8]
    assert latency_fix("TPOT", reached, 0.05, gpus, NAMES.__getitem__) == (
        "the smallest TPOT reached is 55 ms (TP4), against a limit of 50 ms"
    )
    within = latency_fix("TPOT", reached, 0.05, gpus, NAMES.__getitem__, within_nodes=True)
    assert within == "the smallest TPOT within the nodes allowed is 55 ms (TP4), against a limit of 50 ms"
    assert latency_fix("TPOT", reached, 0.06, gpus, NAMES.__getitem__) == "TP4 reaches a TPOT of 55 ms"
    assert latency_fix("TPOT", reached, 0.09, gpus, NAMES.__getitem__) == "TP1 reaches a TPOT of 80 ms", "the smallest"
    assert latency_fix("TPOT", [np.nan], 0.05, [1], str) is None
    assert nodes_fix(4.2, 4, "TP2") == "5 nodes instead of 4 (TP2)"
    assert nodes_fix(np.nan, 4, "TP2") is None


def test_a_way_out_serves_as_asked_or_says_what_it_breaks() -> None:
    reached, gpus, limit = [0.02, 0.03, 0.04, 0.3], [8, 8, 16, 4], 0.05
    broken = {0: "TTFT is 8,442 ms, the limit 3,000 ms"}.get
    serves = [False, False, True, False]
    assert latency_fix("TBT", reached, limit, gpus, NAMES.__getitem__, serves=serves, broken=broken) == (
        "TP4 reaches a TBT of 40 ms"
    )
    said = latency_fix("TBT", reached, limit, gpus, NAMES.__getitem__, serves=[False] * 4, broken=broken)
    assert said == "TP1 reaches a TBT of 20 ms, but TTFT is 8,442 ms, the limit 3,000 ms"
    assert phrases.known(said.replace("TP1", "TP1 on dgx-h100 at 301 requests per worker"))
