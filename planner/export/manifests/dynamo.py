"""Dynamo: a graph of a front end and the planned workers.

Schema: DynamoGraphDeployment nvidia.com/v1beta1 (ai-dynamo/dynamo deploy/operator/api/v1beta1/
dynamographdeployment_types.go and dynamocomponentdeployment_types.go); examples/backends/*/deploy/v1beta1 show the
workers' commands. The operator starts a worker on several hosts itself: rank, address and host count are no flags.
"""

from __future__ import annotations

from typing import Any

from planner.export.engines.common import settings_of
from planner.export.flag_lists import flag_list, kubernetes
from planner.export.manifests import pods
from planner.export.roles import Deployment, Role
from planner.export.words import Arguments, pod_arguments, pod_word

TYPES = {"serve": "worker", "prefill": "prefill", "decode": "decode"}
MODULES = {"vllm": "dynamo.vllm", "sglang": "dynamo.sglang", "trtllm": "dynamo.trtllm"}


def dynamo(d: Deployment) -> str:
    """The graph as YAML, with a ConfigMap where the engine reads a file."""
    engine = d.plan.scenario.engine.name
    image = str(kubernetes()["images"]["dynamo"][engine]["image"])
    documents: list[dict[str, Any]] = []
    files = {f"{r.name}.yaml": s.config for r in d.roles if (s := settings_of(d, r, engine)).config}
    config = f"{d.name}-config" if files else None
    if config is not None:
        documents.append(pods.config_map(config, files))
    frontend = {
        "name": "Frontend",
        "type": "frontend",
        "replicas": 1,
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}},
    }
    spec = {
        "backendFramework": engine,
        "components": [frontend, *(_component(d, role, image, config) for role in d.roles)],
    }
    documents.append(
        {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": d.name},
            "spec": spec,
        }
    )
    more = [
        f"Dynamo runtime {flag_list('dynamo').version} brings its own engine version: check it against the flags.",
        f"Gated weights: kubectl create secret generic {pods.TOKEN_SECRET} --from-literal=HF_TOKEN=...",
    ]
    return pods.yaml_documents(pods.notes(d, *more), documents)


def _component(d: Deployment, role: Role, image: str, config: str | None) -> dict[str, Any]:
    engine = d.plan.scenario.engine.name
    command = ["python3", "-m", MODULES[engine]]
    words, variables = pod_arguments(_arguments(d, role)), pods.engine_variables(d, role)
    one = pods.container("main", image, role, command, words, env=variables)
    component: dict[str, Any] = {"name": role.name, "type": TYPES[role.name], "replicas": role.workers}
    if role.pods > 1:
        component["multinode"] = {"nodeCount": role.pods}
    component["podTemplate"] = {"spec": pods.pod([one], role, config)}
    return component


def _arguments(d: Deployment, role: Role) -> Arguments:
    """The engine's flags as Dynamo's module takes them: the model as a flag, the role as Dynamo's own one."""
    engine = d.plan.scenario.engine.name
    if engine == "trtllm":
        arguments: Arguments = [("--model-path", pod_word(d.model)), ("--served-model-name", d.model)]
        arguments.append(("--extra-engine-args", f"/config/{role.name}.yaml"))
    else:
        own = settings_of(d, role, engine).arguments
        arguments = [("--model", d.model), *own] if engine == "vllm" else list(own)
        # Dynamo moves KV both ways through one connector whatever the role (examples/backends/vllm/deploy/v1beta1).
        arguments = [(f, "kv_both" if f == "--kv-transfer-config.kv_role" else v) for f, v in arguments]
        arguments = [(f, v) for f, v in arguments if f != "--disaggregation-mode"]
        if engine == "sglang" and d.disaggregated:
            arguments.append(("--disaggregation-transfer-backend", "nixl"))
    if d.disaggregated:
        arguments.append(("--disaggregation-mode", role.name))
    return arguments
