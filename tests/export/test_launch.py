"""Launch scripts: flags the engines have, layouts that multiply to the plan's GPUs, nothing run by accident."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from plans import FEASIBLE, example, renamed, with_layout

from planner.errors import InfeasibleError, InputError
from planner.export.flag_lists import flag_list
from planner.export.launch import launch_script
from planner.export.roles import Role, deployment, pick, spread
from planner.scenario.engine_schema import Speculation
from planner.scenario.safe_yaml import load_yaml
from planner.scenario.schema import PriorityClass
from planner.search.plan_schema import Layout, OperatingPoint, Plan

ENGINES = ("vllm", "sglang", "trtllm")
LAYOUTS = (
    {"tp": 8, "moe_tp": 8},
    {"attention_dp": 16, "ep": 16, "redundant_experts": 16},
    {"tp": 2, "attention_dp": 8, "ep": 16},
    {"tp": 8, "pp": 2, "moe_tp": 8},
    {"tp": 2, "attention_dp": 4, "ep": 4, "moe_tp": 2},
)


def commands(script: str) -> list[list[str]]:
    """The commands of a script, word by word."""
    joined = script.replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in joined.splitlines() if line.startswith("exec ")]


def flags_of(words: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Every flag of a command with its values, as the engine's parser reads them."""
    starts = [i for i, w in enumerate(words) if re.match(r"--?[a-z]", w) and w not in ("-m", "-n", "--hostfile")]
    ends = [*starts[1:], len(words)]
    return [(words[i], tuple(words[i + 1 : end])) for i, end in zip(starts, ends, strict=True)]


def check(plan: Plan, engine: str) -> list[list[str]]:
    script = launch_script(deployment(plan), engine)
    assert subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False).returncode == 0
    found = commands(script)
    assert found
    for words in found:
        known = "sglang-router" if "sglang_router.launch_router" in words else engine
        for flag, given in flags_of(words):
            flag_list(known).check(flag, given)
    for text in re.findall(r"cat > \S+ <<'END_OF_CONFIG'\n(.*?)END_OF_CONFIG\n", script, re.S):
        for key in dotted(load_yaml(text, "config")):
            assert key in flag_list("trtllm"), f"TensorRT-LLM has no {key}"
    return found


def dotted(data: object, prefix: str = "") -> list[str]:
    if not isinstance(data, dict):
        return [prefix]
    return [k for key, value in data.items() for k in dotted(value, f"{prefix}.{key}" if prefix else str(key))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FEASIBLE)
def test_examples_use_flags_that_exist(name: str, engine: str) -> None:
    if name.endswith("mi300x") and engine == "trtllm":
        pytest.skip("TensorRT-LLM has no AMD GPUs: test_vendors.py")
    check(example(name), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("serving", ["agg", "disagg"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_multiply_to_the_workers_gpus(layout: dict[str, int], serving: str, engine: str) -> None:
    plan = with_layout(example("deepseek-r1-h200"), serving, **layout)
    role = deployment(plan).roles[0]
    words = check(plan, engine)[0]

    def number(flag: str) -> int:
        return int(words[words.index(flag) + 1]) if flag in words else 1

    if engine == "vllm":
        sizes = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
        assert number(sizes[0]) * number(sizes[1]) * number(sizes[2]) == role.gpus
        assert number("--nnodes") == role.pods
    elif engine == "sglang":
        assert number("--tp-size") * number("--pp-size") == role.gpus
        assert number("--attn-dp-size") == role.layout.attention_dp
        assert number("--nnodes") == role.pods
    elif role.pods > 1:
        assert words[:3] == ["mpirun", "-n", str(role.gpus)]


def test_what_an_engine_cannot_do_is_a_comment() -> None:
    plan = with_layout(example("deepseek-r1-h200"), tp=2, attention_dp=4, ep=4, moe_tp=2)
    assert "# vLLM has no setting for experts in 4 groups of 2 slices" in launch_script(deployment(plan), "vllm")
    assert "no setting for attention TP2 inside attention DP4" in launch_script(deployment(plan), "trtllm")


def test_another_engine_than_the_plans_says_so() -> None:
    text = launch_script(deployment(example("deepseek-r1-h200")), "trtllm")
    assert "do not carry over to TensorRT-LLM" in text.replace("\n# ", " ")


def test_sglang_gives_totals_where_the_server_divides() -> None:
    plan = with_layout(example("deepseek-r1-h200"), attention_dp=8, ep=8)
    settings = plan.candidates[0].settings
    words = commands(launch_script(deployment(plan), "sglang"))[0]
    assert int(words[words.index("--max-running-requests") + 1]) == settings.max_num_seqs * 8
    assert int(words[words.index("--chunked-prefill-size") + 1]) == settings.max_num_batched_tokens * 8


def test_each_pool_starts_with_its_own_settings() -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", tp=8, ep=8)
    first = plan.candidates[0]
    assert first.prefill_pool is not None
    assert first.decode_pool is not None
    own = OperatingPoint(max_num_seqs=14, max_num_batched_tokens=12_288)
    pools = {
        "prefill_pool": first.prefill_pool.model_copy(update={"settings": own}),
        "decode_pool": first.decode_pool.model_copy(update={"settings": first.settings}),
    }
    plan = plan.model_copy(update={"candidates": (first.model_copy(update=pools),)})
    prefill, decode = commands(launch_script(deployment(plan), "vllm"))[:2]
    for words, settings in ((prefill, own), (decode, first.settings)):
        assert int(words[words.index("--max-num-seqs") + 1]) == settings.max_num_seqs
        assert int(words[words.index("--max-num-batched-tokens") + 1]) == settings.max_num_batched_tokens


def test_precision_other_than_the_checkpoints_is_named() -> None:
    plan = example("deepseek-r1-h200")
    precision = {**plan.identity.precision, "routed_experts": "nvfp4", "kv": "fp8_tensor"}
    plan = plan.model_copy(update={"identity": plan.identity.model_copy(update={"precision": precision})})
    text = launch_script(deployment(plan), "vllm")
    assert "routed experts nvfp4 (checkpoint: fp8_block)" in text.replace("\n# ", " ")
    assert "--kv-cache-dtype fp8" in text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    [
        "x; touch HURT",
        "$(touch HURT)",
        "`touch HURT`",
        "a'\"; touch HURT #",
        "x\ntouch HURT\n",
        "--flag",
        "END_OF_CONFIG",
    ],
)
def test_hostile_names_run_nothing(engine: str, text: str, tmp_path: Path) -> None:
    """Runs the script with stand-ins for the engines, which write down their arguments."""
    plan = renamed(with_layout(example("deepseek-r1-h200"), tp=8, moe_tp=8), text)
    for tool in ("vllm", "python", "trtllm-serve", "mpirun"):
        stand_in = tmp_path / tool
        stand_in.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > "$OUT"\n')
        stand_in.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "run.sh").write_text(launch_script(deployment(plan), engine))
    out = tmp_path / "out"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(out)}
    subprocess.run(["bash", "run.sh", "serve"], cwd=work, env=env, check=True, capture_output=True)
    assert not (work / "HURT").exists()
    words = out.read_text().split("\0")
    assert any(w.removeprefix("./") == " ".join(text.split("\n")).strip() for w in words)


def test_script_starts_the_host_it_is_told_to(tmp_path: Path) -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", "vllm", attention_dp=16, ep=16)
    stand_in = tmp_path / "vllm"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    script = tmp_path / "run.sh"
    script.write_text(launch_script(deployment(plan), "vllm"))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    def run(*words: str) -> list[str]:
        done = subprocess.run(["bash", str(script), *words], env=env, check=False, capture_output=True, text=True)
        return done.stdout.split("\n") if done.returncode == 0 else [str(done.returncode)]

    first, second = run("decode", "0", "10.0.0.1"), run("decode", "1", "10.0.0.1")
    assert "--headless" not in first
    assert "--port" in first
    assert second[second.index("--node-rank") + 1] == "1"
    assert second[second.index("--master-addr") + 1] == "10.0.0.1"
    assert "--headless" in second
    assert "--port" not in second
    assert run("nonsense") == ["2"]


def test_hosts_of_a_rack_are_its_trays() -> None:
    plan = with_layout(example("kimi-k2-gb200"), attention_dp=16, ep=16)
    role = deployment(plan).roles[0]
    assert (role.pods, role.gpus_per_pod) == (4, 4)


@pytest.mark.parametrize(
    ("gpus", "host", "hosts"), [(8, 8, 1), (16, 8, 2), (12, 8, 2), (1, 8, 1), (20, 8, 4), (9, 8, 3)]
)
def test_workers_lie_evenly_on_hosts(gpus: int, host: int, hosts: int) -> None:
    assert spread(Layout(attention_dp=gpus, ep=gpus), host, "vllm") == hosts
    assert gpus % hosts == 0
    assert gpus // hosts <= host


@pytest.mark.parametrize(
    ("layout", "host", "vllm", "sglang", "trtllm"),
    [
        ({"tp": 2, "attention_dp": 9, "ep": 18}, 4, 9, 6, 6),  # 3 GPUs a host would cut vLLM's ranks of 2
        ({"tp": 4, "pp": 3, "ep": 4}, 8, 2, 3, 2),  # 6 GPUs a host would cut SGLang's stages of 4
        ({"tp": 8, "pp": 2, "moe_tp": 8}, 8, 2, 2, 2),
        ({"tp": 16, "attention_dp": 2, "ep": 32}, 8, 4, 4, 4),
        ({"tp": 2, "attention_dp": 4, "pp": 2, "ep": 8}, 8, 2, 2, 2),
    ],
)
def test_hosts_cut_neither_ranks_nor_stages(
    layout: dict[str, int], host: int, vllm: int, sglang: int, trtllm: int
) -> None:
    """As the engines deal ranks to hosts: groups of vLLM's data-parallel ranks, ranges of SGLang's ranks."""
    one = Layout(**layout)
    found = {engine: spread(one, host, engine) for engine in ENGINES}
    assert found == {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}
    rank = one.tp * one.pp
    local = max(one.gpus // vllm // rank, 1)
    assert one.attention_dp % local == 0
    assert vllm % (one.attention_dp // local) == 0
    stages, hosts_a_stage = max(one.pp // sglang, 1), max(sglang // one.pp, 1)
    width = one.tp * one.attention_dp // hosts_a_stage
    dealt = {
        (stages * (k // hosts_a_stage) + i, width * (k % hosts_a_stage) + j)
        for k in range(sglang)
        for i in range(stages)
        for j in range(width)
    }
    assert dealt == {(i, j) for i in range(one.pp) for j in range(one.tp * one.attention_dp)}


def test_choice_of_the_candidate() -> None:
    plan = example("deepseek-r1-h200")
    assert pick(plan, 2).rank == 2
    with pytest.raises(InputError, match="rank from 1"):
        pick(plan, 999)
    with pytest.raises(InfeasibleError, match="memory"):
        pick(example("infeasible-405b-one-h100"))


def with_options(plan: Plan, **options: object) -> Plan:
    """The plan with other engine options, not planned again."""
    engine = plan.scenario.engine
    engine = engine.model_copy(update={"options": engine.options.model_copy(update=options)})
    return plan.model_copy(update={"scenario": plan.scenario.model_copy(update={"engine": engine})})


SPECULATION = {
    "none": None,
    "mtp": Speculation(method="mtp", tokens=2, acceptance=(0.8, 0.6)),
    "eagle3": Speculation(method="eagle3", tokens=3, acceptance=(0.7, 0.6, 0.5), draft_model="org/head"),
}
WIDE = (
    *LAYOUTS,
    {"tp": 8, "ep": 8},
    {"tp": 4, "pp": 3, "ep": 4},
    {"attention_dp": 8, "pp": 2, "ep": 8},
    {"tp": 16, "ep": 16},
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("serving", ["agg", "disagg"])
@pytest.mark.parametrize("drafts", SPECULATION)
@pytest.mark.parametrize("layout", WIDE, ids=str)
def test_every_flag_takes_its_values(layout: dict[str, int], drafts: str, serving: str, engine: str) -> None:
    """Over layouts, serving, drafting, KV and weight formats, graphs and memory: names, values, their number."""
    for kv, weights, more in (
        ("bf16", "fp8_block", {}),
        ("fp8_tensor", "nvfp4", {"cuda_graphs": False, "gpu_memory_utilization": 0.9, "kv_transfer_overlap": True}),
    ):
        plan = with_layout(example("deepseek-r1-h200"), serving, engine, **layout)
        precision = {**plan.identity.precision, "kv": kv, "routed_experts": weights}
        plan = plan.model_copy(update={"identity": plan.identity.model_copy(update={"precision": precision})})
        plan = with_options(plan, speculation=SPECULATION[drafts], **more)
        if any(_drafts_over_stages(role, drafts, engine) for role in deployment(plan).roles):
            with pytest.raises(InputError, match="pipeline stages"):
                launch_script(deployment(plan), engine)
        else:
            check(plan, engine)


def _drafts_over_stages(role: Role, drafts: str, engine: str) -> bool:
    """Whether a role would draft where the engine cannot: tests/layout/test_legality.py."""
    if drafts == "none" or role.layout.pp == 1 or engine == "vllm":
        return False
    return engine == "trtllm" or drafts != "mtp" or role.name != "prefill"


def flag(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


def test_settings_are_the_plans() -> None:
    plan = with_options(with_layout(example("deepseek-r1-h200"), tp=8, ep=8), gpu_memory_utilization=0.87)
    point = plan.candidates[0].settings.model_copy(update={"gpu_memory_utilization": 0.87})
    plan = plan.model_copy(update={"candidates": (plan.candidates[0].model_copy(update={"settings": point}),)})
    vllm = check(plan, "vllm")[0]
    assert flag(vllm, "--max-num-seqs") == str(point.max_num_seqs)
    assert flag(vllm, "--max-num-batched-tokens") == str(point.max_num_batched_tokens)
    assert flag(vllm, "--max-model-len") == str(point.max_model_len)
    assert flag(vllm, "--gpu-memory-utilization") == "0.87"
    sglang = check(plan, "sglang")[0]
    assert flag(sglang, "--max-running-requests") == str(point.max_num_seqs)
    assert flag(sglang, "--chunked-prefill-size") == str(point.max_num_batched_tokens)
    assert flag(sglang, "--mem-fraction-static") == "0.87"


def with_point(plan: Plan, **point: object) -> Plan:
    first = plan.candidates[0]
    assert first.settings is not None
    changed = first.model_copy(update={"settings": first.settings.model_copy(update=point)})
    return plan.model_copy(update={"candidates": (changed,)})


def test_vllm_gets_no_more_sequences_than_tokens_of_a_step() -> None:
    plan = with_point(
        with_layout(example("deepseek-r1-h200"), tp=8, ep=8), max_num_seqs=512, max_num_batched_tokens=256
    )
    assert flag(check(plan, "vllm")[0], "--max-num-seqs") == "256"
    assert "--max-num-seqs is 256, not the plan's 512" in launch_script(deployment(plan), "vllm").replace("\n# ", " ")


def test_unsplit_prompts_need_a_step_that_holds_them() -> None:
    plan = with_options(with_layout(example("deepseek-r1-h200"), tp=8, ep=8), chunked_prefill=False)
    longest = plan.candidates[0].settings.max_model_len
    small = with_point(plan, max_num_batched_tokens=longest - 1)
    with pytest.raises(InputError, match=f"at least the longest request, {longest:,}"):
        launch_script(deployment(small), "vllm")
    assert "--no-enable-chunked-prefill" in check(with_point(plan, max_num_batched_tokens=longest), "vllm")[0]
    sglang = check(small, "sglang")[0]
    assert flag(sglang, "--chunked-prefill-size") == "-1"
    assert flag(sglang, "--max-prefill-tokens") == str(longest - 1)
    assert "prompts of more than max_num_tokens" in launch_script(deployment(small), "trtllm").replace("\n# ", " ")


def test_sglang_steps_of_more_than_its_default_are_allowed() -> None:
    plan = with_layout(example("deepseek-r1-h200"), attention_dp=8, ep=8)
    assert "--max-prefill-tokens" not in check(with_point(plan, max_num_batched_tokens=16_384), "sglang")[0]
    words = check(with_point(plan, max_num_batched_tokens=32_768), "sglang")[0]
    assert flag(words, "--max-prefill-tokens") == "32768"
    assert flag(words, "--chunked-prefill-size") == str(8 * 32_768)


def test_priority_classes_reach_the_scheduler() -> None:
    plan = with_layout(example("deepseek-r1-h200"), tp=8, ep=8)
    classes = (PriorityClass(name="a", priority=0, share=0.5), PriorityClass(name="b", priority=1, share=0.5))
    work = plan.scenario.workload.model_copy(update={"priority_classes": classes})
    plan = plan.model_copy(update={"scenario": plan.scenario.model_copy(update={"workload": work})})
    assert flag(check(plan, "vllm")[0], "--scheduling-policy") == "priority"
    words = check(plan, "sglang")[0]
    assert {"--enable-priority-scheduling", "--schedule-low-priority-values-first"} < set(words)
    assert "no setting for priority classes" in launch_script(deployment(plan), "trtllm")


def test_what_the_plan_assumes_and_no_flag_says_is_a_comment() -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", tp=8, ep=8)
    plan = with_options(plan, prefix_cache_share=0.2, kv_transfer_overlap=True)
    for engine in ENGINES:
        text = launch_script(deployment(plan), engine).replace("\n# ", " ")
        assert "prefix_cache_share of 20 %" in text
        assert ("expect the transfer after the prompt" in text) == (engine != "trtllm")
    assert "enable_pipelined_transfer: true" in launch_script(deployment(plan), "trtllm")


@pytest.mark.parametrize(
    "layout", [{"tp": 8, "ep": 8}, {"attention_dp": 16, "ep": 16}, {"tp": 2, "moe_tp": 2}], ids=str
)
def test_vllm_workers_say_where_their_kv_is_fetched(layout: dict[str, int], tmp_path: Path) -> None:
    stand_in = tmp_path / "vllm"
    stand_in.write_text('#!/bin/sh\necho "$VLLM_NIXL_SIDE_CHANNEL_HOST"\n')
    stand_in.chmod(0o755)
    script = tmp_path / "run.sh"
    script.write_text(launch_script(deployment(with_layout(example("deepseek-r1-h200"), "disagg", **layout)), "vllm"))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    def run(**more: str) -> set[str]:
        done = subprocess.run(
            ["bash", str(script), "decode"], env=env | more, capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    assert run(VLLM_NIXL_SIDE_CHANNEL_HOST="10.1.2.3") == {"10.1.2.3"}
    first = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[:1]
    assert run() == set(first)
    whole = launch_script(deployment(with_layout(example("deepseek-r1-h200"), tp=8, ep=8)), "vllm")
    assert "VLLM_NIXL" not in whole
