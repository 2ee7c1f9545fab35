"""llm-d: values of the llm-d-modelservice chart.

Schema: llm-d-incubation/llm-d-modelservice charts/llm-d-modelservice (values.yaml, values.schema.json, and
templates/_helpers.tpl, which adds model, port, TP and DP sizes to ``vllmServe``). Wide workers balance on each host
(--data-parallel-hybrid-lb) as in llm-d/llm-d guides/wide-ep-lws.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from planner.errors import InputError
from planner.export.engines import vllm
from planner.export.engines.common import engine_of, settings_of
from planner.export.flag_lists import kubernetes
from planner.export.manifests import pods
from planner.export.roles import Deployment, Role
from planner.export.weights import checkpoint_gib
from planner.export.words import Arguments, pod_arguments, shell_command

HF_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Only such names go into the chart's uri, which Helm reads as a template."""
CLAIM, MOUNT = "model-weights", "/model-cache"
"""Claim and mount path (modelArtifacts.mountPath) for weights that are not on Hugging Face."""
MARGIN = 0.2
"""Room of the volume over the checkpoint's weights."""
BY_CHART = ("--tensor-parallel-size", "--data-parallel-size")


def llm_d(d: Deployment) -> str:
    """Values for ``helm install RELEASE llm-d-modelservice/llm-d-modelservice -f FILE`` as YAML.

    Raises InputError for TensorRT-LLM, which llm-d's routing sidecar does not speak to.
    """
    engine = d.plan.scenario.engine.name
    if engine == "trtllm":
        raise InputError("--format", "llm-d", "llm-d routes to vLLM and SGLang: use trtllm or dynamo for TensorRT-LLM")
    ports, vendors = kubernetes()["ports"], {role.vendor for role in d.roles}
    vendor = {"intel": "intel-gaudi"}.get(next(iter(vendors)), next(iter(vendors)))
    for role in d.roles:
        pods.gpu_resource(role)
    multinode = any(role.pods > 1 for role in d.roles)
    hosted = HF_ID.fullmatch(d.model) is not None
    uri = f"hf://{d.model}" if hosted else f"pvc://{CLAIM}/{d.name}"
    if not hosted:
        d = replace(d, model=f"{MOUNT}/{d.name}")
    values: dict[str, Any] = {
        "fullnameOverride": d.name,
        "modelArtifacts": {
            "name": d.model if hosted else d.name,
            "uri": uri,
            "size": f"{_volume_gib(d)}Gi",
            "authSecretName": pods.TOKEN_SECRET,
            "labels": {"llm-d.ai/inferenceServing": "true", "llm-d.ai/model": d.name},
        },
        "multinode": multinode,
        "accelerator": {"type": vendor},
        "routing": {"servicePort": ports["http"], "proxy": _proxy(d)},
    }
    by_name = {role.name: role for role in d.roles}
    values["decode"] = _pool(d, by_name.get("decode") or by_name["serve"])
    values["prefill"] = _pool(d, by_name["prefill"]) if "prefill" in by_name else {"create": False, "replicas": 0}
    more = [
        "helm repo add llm-d-modelservice https://llm-d-incubation.github.io/llm-d-modelservice/",
        f"helm install {d.name} llm-d-modelservice/llm-d-modelservice -f THIS_FILE",
    ]
    if hosted:
        more.append(
            f"modelArtifacts.size is the checkpoint's weights, {checkpoint_gib(d):,.0f} GiB, and {100 * MARGIN:.0f} % "
            "more for tokenizer, configuration and the download's own files."
        )
    if multinode and any(role.pods == 1 for role in d.roles):
        more.append("multinode holds for both pools: the pool on one host becomes groups of one pod.")
    if not hosted:
        more.append(f"The checkpoint has no Hugging Face id: a claim {CLAIM} holds it in the folder {d.name}.")
    return pods.yaml_documents(pods.notes(d, *more), [values])


def _volume_gib(d: Deployment) -> int:
    """Room for the checkpoint: its weights once, and MARGIN for tokenizer, configuration, the download's own files."""
    return max(1, math.ceil(checkpoint_gib(d) * (1 + MARGIN)))


def _proxy(d: Deployment) -> dict[str, Any]:
    if not d.disaggregated:
        return {"enabled": False}
    image = kubernetes()["images"]["llm-d"]["routing_sidecar"]["image"]
    return {
        "enabled": True,
        "image": image,
        "connector": "nixlv2" if d.plan.scenario.engine.name == "vllm" else "sglang",
        "targetPort": kubernetes()["ports"]["behind_proxy"],
    }


def _pool(d: Deployment, role: Role) -> dict[str, Any]:
    local = max(1, role.gpus_per_pod // (role.layout.tp * role.layout.pp))
    dp = role.layout.attention_dp
    parallelism = {"tensor": role.layout.tp, "data": dp, "dataLocal": min(local, dp), "workers": role.pods}
    one: dict[str, Any] = {"name": "engine", "image": pods.engine_image(d), **_command(d, role)}
    env = pods.environment(d, role)
    if env:
        one["env"] = env
    one["mountModelVolume"] = True
    one["resources"] = {"limits": {pods.gpu_resource(role): str(role.gpus_per_pod)}}
    one["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]
    return {
        "create": True,
        "replicas": role.workers,
        "parallelism": parallelism,
        "containers": [one],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }


def _command(d: Deployment, role: Role) -> dict[str, Any]:
    """vLLM through the chart where one template does for every host; else an own command.

    The chart has one pod template for leader and workers, so that a data-parallel rank spread over hosts (whose further
    hosts run headless) and SGLang need a command of their own.
    """
    ports = kubernetes()["ports"]
    engine = d.plan.scenario.engine.name
    module = engine_of(engine)
    settings = settings_of(d, role, engine)
    whole = role.gpus_per_pod % (role.layout.tp * role.layout.pp) == 0
    if engine == "vllm" and (role.pods == 1 or (role.layout.attention_dp > 1 and whole)):
        arguments: Arguments = [(f, v) for f, v in settings.arguments if f not in BY_CHART]
        if role.pods > 1:
            arguments += [("--data-parallel-hybrid-lb", None), *vllm.across_hosts(d, role, True)]
        return {"modelCommand": "vllmServe", "args": pod_arguments(arguments)}
    port = ports["behind_proxy"] if d.disaggregated and role.name == "decode" else ports["http"]
    arguments = [*settings.arguments, *module.listen(port)]
    script = "set -eu\n"
    if role.pods > 1:
        arguments += module.across_hosts(d, role, True)
        script += 'HEAD="$LWS_LEADER_ADDRESS"\nNODE_RANK="$LWS_WORKER_INDEX"\n'
        if engine == "vllm":
            script += 'if [ "$NODE_RANK" != 0 ]; then set -- --headless; fi\n'
    command = shell_command(module.program(d), arguments)
    # What Kubernetes would read as one of its own variables stays text; the shell's ${NAME} is left alone by it.
    text = (script + f'exec {command} "$@"\n').replace("$(", "$$(")
    return {"modelCommand": "custom", "command": ["/bin/sh", "-c"], "args": [text]}
