"""What the engine must be told so that it starts, and serves the plan: graphs, remote code, dispatch buffers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from plans import example, with_layout

from planner.errors import InputError
from planner.export.formats import export_text
from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.scenario.engine_schema import Speculation
from planner.scenario.safe_yaml import load_yaml
from planner.search.plan_schema import OperatingPoint, Plan


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


def remote_code_runs(plan: Plan, name: str) -> bool:
    """Whether every worker of an export may run the checkpoint's own code."""
    text, engine = export_text(plan, name), plan.scenario.engine.name
    if engine == "trtllm":
        return text.count("trust_remote_code: true") == len(deployment(plan).roles)
    if name == engine:
        return all("--trust-remote-code" in command for command in text.split("exec ")[1:] if "_router" not in command)
    pods = [c for d in yaml.safe_load_all(text) for c in containers(d) if "command" in c or "modelCommand" in c]
    servers = [" ".join(map(str, (*c.get("command", ()), *c.get("args", ())))) for c in pods]
    assert servers
    return all("--trust-remote-code" in w for w in servers)


def containers(data: Any) -> list[dict[str, Any]]:
    """All containers of a document, wherever they stand."""
    if isinstance(data, list):
        return [c for item in data for c in containers(item)]
    if not isinstance(data, dict):
        return []
    own = [c for c in data.get("containers", ()) if isinstance(c, dict)]
    return own + [c for key, value in data.items() if key != "containers" for c in containers(value)]


@pytest.mark.parametrize("serving", ["agg", "disagg"])
@pytest.mark.parametrize(
    ("engine", "name"),
    [(e, e) for e in ("vllm", "sglang", "trtllm")]
    + [(e, n) for e in ("vllm", "sglang") for n in ("leaderworkerset", "dynamo", "llm-d")]
    + [("trtllm", "leaderworkerset"), ("trtllm", "dynamo")],
)
def test_code_of_the_checkpoint_runs_where_it_must(engine: str, name: str, serving: str) -> None:
    """Kimi's tokenizer is code in the checkpoint; DeepSeek's is not."""
    layout = {"tp": 4, "moe_tp": 4} if engine == "trtllm" else {"tp": 8, "attention_dp": 2, "ep": 16}
    kimi = with_layout(example("kimi-k2-gb200"), serving, engine, **layout)
    assert remote_code_runs(kimi, name)
    assert "code of its own (config, model, tokenizer)" in export_text(kimi, name).replace("\n# ", " ")
    assert not remote_code_runs(with_layout(example("deepseek-r1-h200"), serving, engine, **layout), name)


ACROSS = {"attention_dp": 16, "ep": 16}
"""Two nodes of 8 GPUs: tokens reach their experts by DeepEP."""
DISPATCH = "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"


@pytest.mark.parametrize(
    ("layout", "sequences", "drafts", "room"),
    [
        (ACROSS, 100, 0, None),  # its own 128 hold them
        (ACROSS, 300, 0, 300),
        (ACROSS, 300, 2, 900),
        ({"tp": 2, "attention_dp": 8, "ep": 16}, 300, 2, 450),  # both ranks of a replica send half of its tokens
        ({"attention_dp": 8, "ep": 8}, 300, 2, None),  # inside a node: no DeepEP
    ],
)
def test_low_latency_dispatch_has_room_for_a_step(
    layout: dict[str, int], sequences: int, drafts: int, room: int | None
) -> None:
    """A step of more tokens than the buffers hold ends SGLang's server (DeepEP issue 165)."""
    plan = with_point(with_layout(example("deepseek-r1-h200"), "agg", "sglang", **layout), max_num_seqs=sequences)
    if drafts:
        plan = with_options(plan, speculation=Speculation(method="mtp", tokens=drafts, tokens_per_step=1.5))
    assert re.findall(f"export {DISPATCH}=(.*)", export_text(plan, "sglang")) == ([] if room is None else [str(room)])
    for name in ("leaderworkerset", "dynamo", "llm-d"):
        pods = [c for d in yaml.safe_load_all(export_text(plan, name)) for c in containers(d) if c.get("command")]
        found = [e["value"] for c in pods for e in c.get("env", ()) if e["name"] == DISPATCH]
        assert found == ([] if room is None else [str(room)] * len(pods))


def test_more_than_low_latency_dispatch_can_hold_is_refused() -> None:
    plan = with_point(with_layout(example("deepseek-r1-h200"), "agg", "sglang", **ACROSS), max_num_seqs=400)
    plan = with_options(plan, speculation=Speculation(method="mtp", tokens=2, tokens_per_step=1.5))
    with pytest.raises(InputError, match="at most 341 for SGLang"):
        export_text(plan, "sglang")


@pytest.mark.parametrize(("sequences", "depth"), [(200, None), (600, "1202")])
def test_vllm_sizes_its_dispatch_by_the_steps_tokens(sequences: int, depth: str | None) -> None:
    """deepep_low_latency keeps buffers of --max-num-batched-tokens: 2,048 would be 34 GB of DeepSeek-V3."""
    plan = with_layout(example("deepseek-r1-h200"), "disagg", "vllm", **ACROSS)
    first = plan.candidates[0]
    assert first.decode_pool is not None
    point = OperatingPoint(max_num_seqs=sequences, max_num_batched_tokens=2048, max_model_len=4000)
    pool = first.decode_pool.model_copy(update={"settings": point})
    plan = plan.model_copy(update={"candidates": (first.model_copy(update={"decode_pool": pool}),)})
    prefill, decode = export_text(plan, "vllm").split("\ndecode)")
    assert f"--max-num-batched-tokens {sequences} " in decode
    assert "NVSHMEM_QP_DEPTH" not in prefill
    assert re.findall("export NVSHMEM_QP_DEPTH=(.*)", decode) == ([] if depth is None else [depth])
