"""What the engine must be told so that it starts, and serves the plan: graphs, remote code, dispatch buffers."""

from __future__ import annotations

import re
from typing import Any

from plans import example, with_layout

from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.scenario.safe_yaml import load_yaml
from planner.search.plan_schema import Plan


def with_point(plan: Plan, **point: object) -> Plan:
    """The plan with other settings of its first candidate."""
    first = plan.candidates[0]
    changed = first.model_copy(update={"settings": first.settings.model_copy(update=point)})
    return plan.model_copy(update={"candidates": (changed,)})


def with_options(plan: Plan, **options: object) -> Plan:
    """The plan with other engine options, not planned again."""
    engine = plan.scenario.engine
    engine = engine.model_copy(update={"options": engine.options.model_copy(update=options)})
    return plan.model_copy(update={"scenario": plan.scenario.model_copy(update={"engine": engine})})


def trtllm_config(plan: Plan) -> Any:
    """The first LlmArgs that the script writes."""
    found = re.search(
        r"cat > \S+ <<'END_OF_CONFIG'\n(.*?)END_OF_CONFIG\n", launch_script(deployment(plan), "trtllm"), re.S
    )
    assert found is not None
    return load_yaml(found[1], "config")


def test_trtllm_captures_the_batch_that_is_planned() -> None:
    """Left to itself it captures up to 128 and runs every size that it has not captured without a graph."""
    plan = with_point(with_layout(example("deepseek-r1-h200"), tp=8, ep=8), max_num_seqs=250)
    assert trtllm_config(plan)["cuda_graph_config"] == {"max_batch_size": 250, "enable_padding": True}
    assert trtllm_config(with_options(plan, cuda_graphs=False))["cuda_graph_config"] is None
