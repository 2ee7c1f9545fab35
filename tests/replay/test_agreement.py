"""The grid of cases is as wide as promised, and the page says what was found."""

from __future__ import annotations

import re

from planner.catalog import Catalog
from planner.search.agreement import TARGETS, Case, Compared, cases, compare, markdown, scores


def test_grid_is_as_wide_as_promised() -> None:
    grid = cases()
    assert len(grid) >= 40
    assert len({c.model for c in grid}) >= 2
    assert len({c.node for c in grid}) >= 3
    assert {c.serving for c in grid} == {"agg", "disagg"}
    assert {"short_qa", "long_document_qa", "long_reasoning"} <= {c.load for c in grid}
    used = {c.utilisation for c in grid if c.serving == "agg" and c.utilisation}  # others state a rate
    assert (min(used), max(used)) == (0.3, 0.9)
    assert {1.0, 4.0} <= {c.cv for c in grid}


def test_a_case_is_evaluated_both_ways(cat: Catalog) -> None:
    case = Case("llama-3.3-70b", "dgx-h100", "vllm", "chat", 0.6, 1.0, (("tp", 4),))
    found = compare((case,), requests=1_000, catalog=cat)
    assert len(found) == 1
    assert abs(found[0].error("throughput_rps") or 1.0) < 0.1
    page = markdown(found, 1_000, [])
    assert case.name in page


def _compared(error: float, outside: bool) -> Compared:
    replayed = {k: {"p50": 1.0, "p95": 1.0, "p99": 1.0} for k in ("ttft_ms", "tbt_ms")}
    closed = {k: dict.fromkeys(v, 1.0 + error) for k, v in replayed.items()}
    rates = {"throughput_rps": 1.0, "goodput_rps": 1.0}
    return Compared(cases()[0], "one", 1.0, replayed | rates, closed | dict.fromkeys(rates, 1.0 + error), outside)


def test_scores_count_cases_inside_the_range() -> None:
    found = [_compared(0.02, False), _compared(0.1, False), _compared(9.0, True)]
    counted = scores(found)
    assert counted["throughput_rps"] == (1, 2)
    assert counted["ttft_ms p95"] == (2, 2)
    assert set(counted) == set(TARGETS)
    page = markdown(found, 10, ["a case: why not"])
    assert "1 of 3 cases are outside" in page
    assert "a case: why not" in page
    assert "in 90 % of the cases" in page
    assert not re.search(r"\d%", page)
