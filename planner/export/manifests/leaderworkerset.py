"""LeaderWorkerSet: one set a role, one group a worker, one pod a host.

Schema: leaderworkerset.x-k8s.io/v1 (kubernetes-sigs/lws api/leaderworkerset/v1/leaderworkerset_types.go); the pattern
of leader address, group size and worker index follows docs/examples/leaderworkerset/basic/.
"""

from __future__ import annotations

from typing import Any

from planner.errors import InputError
from planner.export.engines import trtllm
from planner.export.engines.common import engine_of, settings_of
from planner.export.flag_lists import kubernetes
from planner.export.manifests import pods
from planner.export.roles import Deployment, Role
from planner.export.words import pod_arguments, pod_word


def leaderworkerset(d: Deployment) -> str:
    """LeaderWorkerSets and their services as YAML.

    Raises InputError for a TensorRT-LLM worker over several hosts, which needs an MPI launcher that pods do not bring.
    """
    documents: list[dict[str, Any]] = []
    for role in d.roles:
        documents += _role(d, role)
    more = [*engine_of(d.plan.scenario.engine.name).front(d)]
    if d.disaggregated and d.plan.scenario.engine.name != "vllm":
        more.append("A router in front of both sets completes the deployment: see export --format dynamo or llm-d.")
    more.append(f"Gated weights: kubectl create secret generic {pods.TOKEN_SECRET} --from-literal=HF_TOKEN=...")
    return pods.yaml_documents(pods.notes(d, *more), documents)


def _role(d: Deployment, role: Role) -> list[dict[str, Any]]:
    engine = d.plan.scenario.engine.name
    name = pods.role_name(d, role)
    settings = settings_of(d, role, engine)
    documents: list[dict[str, Any]] = []
    config = None
    if settings.config:
        if role.pods > 1:
            raise InputError(
                "--format",
                "leaderworkerset",
                f"TensorRT-LLM needs an MPI launcher for a worker on {role.pods} hosts: use trtllm or dynamo",
            )
        config = f"{name}-config"
        documents.append(pods.config_map(config, {trtllm.config_name(role): settings.config}))
    leader = {"metadata": {"labels": {"role": "leader"}}, "spec": _pod(d, role, True, config)}
    spec: dict[str, Any] = {
        "replicas": role.workers,
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {
            "size": role.pods,
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": leader,
            "workerTemplate": {"spec": _pod(d, role, role.pods == 1, config)},
        },
    }
    meta = {"name": name, "labels": {"app.kubernetes.io/managed-by": "llm-capacity-planner"}}
    documents.append(
        {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": meta, "spec": spec}
    )
    documents.append(_service(name))
    return documents


def _pod(d: Deployment, role: Role, first: bool, config: str | None) -> dict[str, Any]:
    module = engine_of(d.plan.scenario.engine.name)
    port = kubernetes()["ports"]["http"]
    arguments = list(module.settings(d, role).arguments)
    if config is not None:
        arguments = [("--config", f"/config/{trtllm.config_name(role)}")]
    if first:
        arguments += module.listen(port)
    if role.pods > 1:
        arguments += module.across_hosts(d, role, first)
    command = [pod_word(w) for w in module.program(d)]
    served, words = port if first else None, pod_arguments(arguments)
    variables = pods.environment(d, role)
    one = pods.container("engine", pods.engine_image(d), role, command, words, served, variables)
    return pods.pod([one], role, config)


def _service(name: str) -> dict[str, Any]:
    port = kubernetes()["ports"]["http"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-http"},
        "spec": {
            "selector": {"leaderworkerset.sigs.k8s.io/name": name, "role": "leader"},
            "ports": [{"name": "http", "protocol": "TCP", "port": port, "targetPort": port}],
        },
    }
