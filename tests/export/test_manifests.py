"""Manifests against schemas made from the projects' own definitions (schemas/README.md)."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from plans import FEASIBLE, example, renamed, with_layout
from referencing import Registry, Resource

from planner.errors import InputError
from planner.export.flag_lists import flag_list
from planner.export.formats import export_text
from planner.export.manifests.yaml_text import manifest_yaml
from planner.search.plan_schema import Plan

SCHEMAS = Path(__file__).parent / "schemas"
LOADED = {p.name: json.loads(p.read_text(encoding="utf-8")) for p in SCHEMAS.glob("*.json")}
REGISTRY: Registry[Any] = Registry().with_resources(
    [(name, Resource.from_contents(schema)) for name, schema in LOADED.items()]
)
KINDS: dict[str, dict[str, Any]] = {
    "LeaderWorkerSet": {"$ref": "leaderworkerset.json"},
    "DynamoGraphDeployment": {"$ref": "dynamo.json"},
    "Service": {"$ref": "pod.json#/$defs/service"},
    "ConfigMap": {"$ref": "pod.json#/$defs/configMap"},
}
NAMES = {"leaderworkerset": "LeaderWorkerSet", "dynamo": "DynamoGraphDeployment", "llm-d": None}
LAYOUTS = (
    {"tp": 8, "moe_tp": 8},
    {"attention_dp": 16, "ep": 16, "redundant_experts": 16},
    {"tp": 8, "pp": 2, "moe_tp": 8},
)


def validate(document: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema, registry=REGISTRY).validate(document)


def documents(plan: Plan, name: str) -> list[Any]:
    """The validated documents of an export."""
    found = [d for d in yaml.safe_load_all(export_text(plan, name)) if d is not None]
    for document in found:
        validate(document, KINDS[document["kind"]] if "kind" in document else {"$ref": "llm-d.json"})
    return found


def containers(document: Any) -> list[dict[str, Any]]:
    """Every container below a document."""
    if isinstance(document, dict):
        own = document.get("containers", [])
        return [*own, *(c for v in document.values() for c in containers(v))]
    return [c for v in document for c in containers(v)] if isinstance(document, list) else []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scenario", FEASIBLE)
def test_examples_validate(scenario: str, name: str) -> None:
    found = documents(example(scenario), name)
    assert any(d.get("kind") == NAMES[name] for d in found)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("serving", ["agg", "disagg"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_layouts_and_engines(name: str, layout: dict[str, int], serving: str, engine: str) -> None:
    plan = with_layout(example("deepseek-r1-h200"), serving, engine, **layout)
    hosts = plan.candidates[0].layout.gpus // 8
    if engine == "trtllm" and (name == "llm-d" or (name == "leaderworkerset" and hosts > 1)):
        with pytest.raises(InputError, match=r"TensorRT-LLM"):
            export_text(plan, name)
        return
    found = documents(plan, name)
    for document in found:
        if document.get("kind") == "LeaderWorkerSet":
            assert document["spec"]["leaderWorkerTemplate"]["size"] == hosts
            assert document["spec"]["replicas"] == (2 if serving == "disagg" else plan.candidates[0].replicas)
    asked = [c["resources"]["limits"]["nvidia.com/gpu"] for d in found for c in containers(d) if "resources" in c]
    assert asked
    assert set(asked) == {"8"}
    for document in found:
        for one in containers(document):
            check_flags(one, engine, name)


def check_flags(one: dict[str, Any], engine: str, name: str) -> None:
    """Flags of a container are the engine's, Dynamo's where its module takes them, with values they take."""
    words = [*one.get("command", ()), *one.get("args", ())]
    if one.get("modelCommand") == "custom":
        line = one["args"][0].replace("\\\n", " ").split("exec ", 1)[1]
        words = shlex.split(line)
    known = [flag_list(engine), *([flag_list("dynamo")] if name == "dynamo" else [])]
    starts = [i for i, word in enumerate(words) if word.startswith("--")]
    for i, end in zip(starts, [*starts[1:], len(words)], strict=False):
        lists = [flags for flags in known if words[i] in flags]
        assert lists, words[i]
        lists[-1].check(words[i], tuple(w for w in words[i + 1 : end] if w != "$@"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["$(HF_TOKEN)", "{{ .Values.x }}", "a: b\n- c", "yes", "1e3", "x' \"; touch HURT"])
def test_hostile_checkpoints_stay_text(name: str, text: str) -> None:
    plan = renamed(with_layout(example("deepseek-r1-h200"), "agg", "vllm", tp=8, moe_tp=8), text)
    found = documents(plan, name)
    words = [w for d in found for c in containers(d) for w in [*c.get("command", ()), *c.get("args", ())]]
    shown = text.replace("\n", " ").replace("$(", "$$(")
    if name == "llm-d":
        assert found[0]["modelArtifacts"]["uri"].startswith("pvc://model-weights/")
        assert not any(text in w for w in words)
    else:
        assert shown in words


def test_llm_d_scripts_are_shell(tmp_path: Path) -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", "sglang", attention_dp=16, ep=16)
    values = documents(plan, "llm-d")[0]
    for pool in ("prefill", "decode"):
        script = values[pool]["containers"][0]["args"][0]
        assert subprocess.run(["sh", "-n"], input=script.encode(), check=False).returncode == 0
        assert "--node-rank" in script
    assert "--port 8200" in values["decode"]["containers"][0]["args"][0]
    assert "--port 8000" in values["prefill"]["containers"][0]["args"][0]


def test_llm_d_leaves_to_the_chart_what_the_chart_adds() -> None:
    plan = with_layout(example("deepseek-r1-h200"), "agg", "vllm", attention_dp=16, ep=16)
    pool = documents(plan, "llm-d")[0]["decode"]
    args = pool["containers"][0]["args"]
    assert pool["parallelism"] == {"tensor": 1, "data": 16, "dataLocal": 8, "workers": 2}
    assert "--data-parallel-size" not in args
    assert "--data-parallel-hybrid-lb" in args
    assert "--headless" not in args


def test_llm_d_runs_further_hosts_of_a_rank_headless() -> None:
    """A data-parallel rank over two trays: the chart's one template does not tell them apart."""
    plan = with_layout(example("kimi-k2-gb200"), "agg", "vllm", tp=8, attention_dp=2, ep=16)
    pool = documents(plan, "llm-d")[0]["decode"]
    assert pool["parallelism"]["workers"] == 4
    script = pool["containers"][0]["args"][0]
    assert 'if [ "$NODE_RANK" != 0 ]; then set -- --headless; fi' in script
    assert "--data-parallel-size 2" in script
    assert "--data-parallel-hybrid-lb" not in script


@pytest.mark.parametrize("name", ["leaderworkerset", "llm-d"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("serving", ["agg", "disagg"])
def test_vllm_pods_say_where_their_kv_is_fetched(serving: str, engine: str, name: str) -> None:
    plan = with_layout(example("deepseek-r1-h200"), serving, engine, attention_dp=16, ep=16)
    found = [e for d in documents(plan, name) for c in containers(d) for e in c.get("env", ())]
    if engine == "vllm" and serving == "disagg":
        assert {e["name"] for e in found} == {"VLLM_NIXL_SIDE_CHANNEL_HOST"}
        assert all(e["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP" for e in found)
    else:
        assert not any("valueFrom" in e for e in found)


def test_trtllm_reads_its_configuration_from_a_config_map() -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", "trtllm", tp=8, moe_tp=8)
    for name in ("leaderworkerset", "dynamo"):
        found = documents(plan, name)
        files = {k: v for d in found if d.get("kind") == "ConfigMap" for k, v in d["data"].items()}
        assert set(files) == {"prefill.yaml", "decode.yaml"}
        assert yaml.safe_load(files["prefill.yaml"])["disable_overlap_scheduler"] is True
        named = [w for d in found for c in containers(d) for w in c.get("args", ()) if w.startswith("/config/")]
        assert {n.removeprefix("/config/") for n in named} == set(files)


def test_the_vendors_resource_is_asked_for() -> None:
    found = documents(example("llama-3.3-70b-mi300x"), "leaderworkerset")
    assert all("amd.com/gpu" in c["resources"]["limits"] for d in found for c in containers(d))


@pytest.mark.parametrize(
    "word", ["yes", "No", "on", "null", "1e3", "0x1", "010", "1:30", "~", "-", "", " x", "a: b", "#"]
)
def test_text_is_text_to_yaml_1_1(word: str) -> None:
    assert yaml.safe_load(manifest_yaml({"a": word, "b": [word]})) == {"a": word, "b": [word]}
