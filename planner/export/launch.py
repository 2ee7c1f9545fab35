"""Launch scripts: one shell script that starts any host of a planned deployment."""

from __future__ import annotations

from planner.export.engines import sglang, trtllm
from planner.export.engines.common import engine_of, settings_of
from planner.export.engines.settings import Settings
from planner.export.flag_lists import TITLES, flag_list, kubernetes
from planner.export.roles import Deployment, Role
from planner.export.shared_host import about, nixl_host, on_hosts, router_port, workers_of_a_host
from planner.export.words import comment, shell_command, shell_word
from planner.scenario.safe_yaml import dump_yaml
from planner.search.headline import deployment as deployment_text

_END = "END_OF_CONFIG"


def launch_script(d: Deployment, engine: str) -> str:
    """A bash script with the engine's flags.

    One worker on one host: the plain command; several on one host: a loop over them. Otherwise
    ``ROLE NODE_RANK HEAD_ADDRESS`` on the command line say which host of which worker is started. Everything from the
    plan is quoted.
    """
    roles = {role.name: settings_of(d, role, engine) for role in d.roles}
    lines = ["#!/usr/bin/env bash", *_header(d, engine)]
    for role in d.roles:
        lines += [line for note in roles[role.name].notes for line in comment(_about(d, role) + note)]
    lines += [line for text in engine_of(engine).front(d) for line in comment(text)]
    if d.disaggregated:
        taken = kubernetes()["ports"]["http"]
        lines += comment(f"Workers' ports begin at {taken}: port {router_port()} is free for the router on any host.")
    lines.append("set -euo pipefail")
    if d.checkpoint.lacking:
        lines.append(f': "${{MODEL:?a checkpoint with {d.checkpoint.lacking}}}"')
    if len(d.roles) == 1 and d.roles[0].pods == 1:
        if d.roles[0].shares_hosts and d.roles[0].hosts > 1:
            lines += ["", *comment(f"usage: bash SCRIPT [HOST, from 0 to {d.roles[0].hosts - 1}]")]
        lines += ["", *_worker(d, engine, d.roles[0], roles["serve"], '"${1:-0}"')]
        return "\n".join(lines) + "\n"
    names = [r.name for r in d.roles] + (["router"] if d.disaggregated and engine in ("sglang", "trtllm") else [])
    lines += [
        "",
        *comment(f"usage: bash SCRIPT {'|'.join(names)} [NODE_RANK, from 0] [address of the worker's first host]"),
        *(
            line
            for role in d.roles
            if role.shares_hosts and max(r.hosts for r in d.roles) > 1
            for line in comment(
                f"{role.name}: workers on {on_hosts(role)}; NODE_RANK is the host, without it {role.first_host}."
            )
        ),
        f'ROLE="${{1:?which of {", ".join(names)}}}"',
        'NODE_RANK="${2:-0}"',
        'HEAD="${3:-127.0.0.1}"',
        'case "$ROLE" in',
    ]
    for role in d.roles:
        host = '"$NODE_RANK"' if role.first_host == 0 else f'"${{2:-{role.first_host}}}"'
        lines += [f"{role.name})", *_worker(d, engine, role, roles[role.name], host), ";;"]
    if "router" in names:
        lines += ["router)", *_router(d, engine), ";;"]
    lines += ["*)", f'  echo "unknown role: $ROLE (one of {", ".join(names)})" >&2; exit 2', ";;", "esac"]
    return "\n".join(lines) + "\n"


def _about(d: Deployment, role: Role) -> str:
    return f"{role.name}: " if len(d.roles) > 1 else ""


def _header(d: Deployment, engine: str) -> list[str]:
    plan = d.plan
    texts = [
        f"{plan.scenario.name}: candidate {d.candidate.rank}, {deployment_text(d.candidate)}",
        f"Flags of {TITLES[engine]} {flag_list(engine).version}. Planner {plan.versions.planner}, catalogue "
        f"{plan.versions.catalogue}, coefficients {plan.versions.coefficients}.",
    ]
    for role in d.roles:
        if role.shares_hosts:
            texts.append(f"{role.name} on {role.node}: {about(role)}")
            continue
        hosts = "1 host" if role.pods == 1 else f"{role.pods} hosts"
        each = "each " if role.workers > 1 else ""
        texts.append(
            f"{role.name}: {role.workers} worker{'s' if role.workers > 1 else ''} of {role.gpus} GPUs, {each}on "
            f"{hosts} of {role.node}"
        )
    return [line for text in texts for line in comment(text)]


def _worker(d: Deployment, engine: str, role: Role, settings: Settings, host: str) -> list[str]:
    module = engine_of(engine)
    arguments = [*settings.arguments, *module.listen(kubernetes()["ports"]["http"])]
    lines = _config(trtllm.config_name(role), settings.config) if settings.config else []
    lines += [f"export {name}={shell_word(value)}" for name, value in settings.environment.items()]
    if role.shares_hosts:
        return workers_of_a_host(d, engine, role, settings, lines, host)
    lines += nixl_host(d, engine)
    if role.pods == 1:
        return [*lines, "exec " + shell_command(module.program(d), arguments)]
    if engine == "trtllm":
        texts = (
            f"The file hosts names the {role.pods} hosts of the worker, {role.gpus_per_pod} ranks each; start once.",
        )
        notes = [line for text in texts for line in comment(text)]
        return [*lines, *notes, "exec " + shell_command([*trtllm.mpi(role), *module.program(d)], arguments)]
    first = shell_command(module.program(d), [*arguments, *module.across_hosts(d, role, True)])
    other = shell_command(module.program(d), [*settings.arguments, *module.across_hosts(d, role, False)])
    return [*lines, 'if [ "$NODE_RANK" = 0 ]; then', "exec " + first, "else", "exec " + other, "fi"]


def _router(d: Deployment, engine: str) -> list[str]:
    port = router_port()
    if engine == "sglang":
        version = flag_list("sglang-router").version
        return [
            *comment(f"sglang-router {version}; replace the host names by those of each worker's first host."),
            "exec " + shell_command(*sglang.router(d, port)),
        ]
    return [
        *_config("disaggregated.yaml", trtllm.front_config(d, port)),
        *comment("Replace the host names in disaggregated.yaml by those of each worker's first host."),
        "exec " + shell_command(["trtllm-serve", "disaggregated"], [("-c", "disaggregated.yaml")]),
    ]


def _config(name: str, config: dict[str, object]) -> list[str]:
    """Writes a YAML file from a quoted here-document, in which the shell expands nothing."""
    return [f"cat > {name} <<'{_END}'", *dump_yaml(config).splitlines(), _END]
