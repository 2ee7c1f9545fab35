"""Parts that manifests share: containers with GPUs, shared memory, the weights' token, comments on top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from planner.errors import InputError
from planner.export.engines.common import settings_of
from planner.export.flag_lists import TITLES, flag_list, kubernetes
from planner.export.manifests.yaml_text import manifest_yaml
from planner.export.roles import Deployment, Role
from planner.export.vendors import vendors
from planner.export.words import comment
from planner.scenario.safe_yaml import dump_yaml
from planner.search.headline import deployment as deployment_text

TOKEN_SECRET = "hf-token-secret"
"""Secret with the key HF_TOKEN, as the engines' and Dynamo's examples name it."""


def gpu_resource(role: Role) -> str:
    """Device-plugin resource of the GPU's vendor. Raises InputError for a vendor without one in the kept list."""
    known = kubernetes()["resources"]["by_vendor"]
    if role.vendor not in known:
        raise InputError("accelerator", role.vendor, f"a vendor with a device plugin here: {', '.join(known)}")
    return str(known[role.vendor])


def engine_image(d: Deployment) -> str:
    """The engine's own image at the version of its flag list."""
    return str(kubernetes()["images"]["engine"][d.plan.scenario.engine.name]["image"])


def environment(d: Deployment, role: Role) -> list[dict[str, Any]]:
    """Variables of a role's workers: what the engine has no flag for, and of vLLM's in a disaggregated deployment the
    pod's address, where others fetch KV.
    """
    engine = d.plan.scenario.engine.name
    own = engine_variables(d, role)
    if not d.disaggregated or engine != "vllm":
        return own
    name = vendors()["shared_host"]["vllm_nixl_host"]
    return [*own, {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def engine_variables(d: Deployment, role: Role) -> list[dict[str, Any]]:
    """What the engine reads from variables instead of flags."""
    settings = settings_of(d, role, d.plan.scenario.engine.name)
    return [{"name": name, "value": value} for name, value in settings.environment.items()]


def container(
    name: str,
    image: str,
    role: Role,
    command: Sequence[str],
    args: Sequence[str] = (),
    port: int | None = None,
    env: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A container that owns its host's GPUs of a worker."""
    out: dict[str, Any] = {"name": name, "image": image, "command": list(command)}
    if args:
        out["args"] = list(args)
    if env:
        out["env"] = list(env)
    out["envFrom"] = [{"secretRef": {"name": TOKEN_SECRET, "optional": True}}]
    out["resources"] = {"limits": {gpu_resource(role): str(role.gpus_per_pod)}}
    if port is not None:
        out["ports"] = [{"containerPort": port, "name": "http"}]
        out["readinessProbe"] = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 10}
    out["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]
    return out


def pod(containers: Sequence[dict[str, Any]], role: Role, config_map: str | None = None) -> dict[str, Any]:
    """A pod specification with shared memory for the ranks, and the engine's configuration where it has a file."""
    volumes: list[dict[str, Any]] = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    if config_map is not None:
        volumes.append({"name": "config", "configMap": {"name": config_map}})
        for one in containers:
            one["volumeMounts"] = [*one["volumeMounts"], {"name": "config", "mountPath": "/config", "readOnly": True}]
    return {"containers": list(containers), "volumes": volumes}


def config_map(name: str, files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A ConfigMap of YAML files."""
    data = {key: dump_yaml(content) for key, content in files.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def role_name(d: Deployment, role: Role) -> str:
    """Kubernetes name of a role's workers."""
    return f"{d.name}-{role.name}"


def notes(d: Deployment, *more: str) -> list[str]:
    """Comments owed on top of a manifest: what it is, and what the engine has no setting for."""
    engine = d.plan.scenario.engine.name
    plan = d.plan
    texts = [
        f"{plan.scenario.name}: candidate {d.candidate.rank}, {deployment_text(d.candidate)}",
        f"Flags of {TITLES[engine]} {flag_list(engine).version}. Planner {plan.versions.planner}, catalogue "
        f"{plan.versions.catalogue}, coefficients {plan.versions.coefficients}.",
        *more,
    ]
    for role in d.roles:
        prefix = f"{role.name}: " if len(d.roles) > 1 else ""
        texts += [prefix + note for note in settings_of(d, role, engine).notes]
    if any(role.vendor != "nvidia" for role in d.roles):
        texts.append("The image is built for NVIDIA GPUs: replace it by the vendor's.")
    return texts


def yaml_documents(texts: Iterable[str], documents: Sequence[dict[str, Any]]) -> str:
    """Comment lines and YAML documents."""
    head = "\n".join(line for text in texts for line in comment(text))
    return head + "\n" + "---\n".join(manifest_yaml(document) for document in documents)
