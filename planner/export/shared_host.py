"""Several workers on one host: the GPUs and ports of each, in a launch script.

Ports stand ``port_step`` apart, since engines listen on ports behind their own; numbers with sources in
hardware_db/engine_flags/vendors.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.export.engines.common import engine_of
from planner.export.engines.settings import Settings
from planner.export.flag_lists import kubernetes
from planner.export.roles import Deployment, Role
from planner.export.vendors import vendors
from planner.export.words import Arguments, Var, shell_command

PORT, BOOTSTRAP = Var("PORT", ""), Var("BOOTSTRAP", "")


def about(role: Role) -> str:
    """How the workers of a host are told apart."""
    port, step = kubernetes()["ports"]["http"], vendors()["shared_host"]["port_step"]
    if role.stretches:
        return _about_both(role, port, step)
    own = "GPU I" if role.gpus == 1 else f"GPUs {role.gpus} I to {role.gpus} I + {role.gpus - 1}"
    hosts = "one host" if role.hosts == 1 else f"{role.hosts} hosts, up to {role.per_host} on each"
    return (
        f"{role.workers} workers of {role.gpus} GPU{'s' if role.gpus > 1 else ''} share {hosts}: worker I of a host, "
        f"from 0, takes {own} and port {port} + {step} I."
    )


def _about_both(role: Role, port: int, step: int) -> str:
    several = "s" if role.workers > 1 else ""
    parts = []
    for s in role.stretches:
        low = s.before * role.before_gpus
        hosts = f"host {s.first}" if s.last - s.first == 1 else f"each of hosts {s.first} to {s.last - 1}"
        gpus = _span("GPU", low, low + s.own * role.gpus - 1)
        parts.append(f"on {hosts} {s.own} on {gpus}, {_span('port', port + step * s.before, step=step, count=s.own)}")
    gpus = f"{role.gpus} GPU{'s' if role.gpus > 1 else ''}"
    return (
        f"{role.workers} worker{several} of {gpus} on hosts that both pools share, counted over both: "
        f"{'; '.join(parts)}."
    )


def router_port() -> int:
    """A port that no worker of any host has: a step before the first worker's, and theirs count up from there."""
    return int(kubernetes()["ports"]["http"] - vendors()["shared_host"]["port_step"])


def on_hosts(role: Role) -> str:
    """The hosts with workers of a role: ``host 1``, ``hosts 0 to 2``, ``hosts 0, 2 to 4``."""
    ends: list[list[int]] = []
    for first, last in [(s.first, s.last) for s in role.stretches] or [(0, role.hosts)]:
        if ends and ends[-1][1] == first:
            ends[-1][1] = last
        else:
            ends.append([first, last])
    spans = ", ".join(str(first) if last - first == 1 else f"{first} to {last - 1}" for first, last in ends)
    return f"host {spans}" if spans.isdigit() else f"hosts {spans}"


def _span(name: str, low: int, high: int | None = None, *, step: int = 1, count: int = 1) -> str:
    """``GPUs 4 to 7``, ``GPU 4``, ``ports 8000, 8100 and on to 8300``."""
    last = low + step * (count - 1) if high is None else high
    if last == low:
        return f"{name} {low}"
    return f"{name}s {low} to {last}" + (f" in steps of {step}" if step > 1 and count > 2 else "")


def workers_of_a_host(
    d: Deployment, engine: str, role: Role, settings: Settings, config: Sequence[str], host: str
) -> list[str]:
    """Shell lines that start a host's workers beside each other and wait for them; ``host`` is its shell word."""
    module, beside = engine_of(engine), vendors()["shared_host"]
    step, port = beside["port_step"], kubernetes()["ports"]["http"]
    variable = vendors()["visible_devices"][role.vendor]["variable"]
    arguments: Arguments = [*settings.arguments, *module.listen(PORT)]
    first, start, end = f"I * {role.gpus}", "0", "COUNT"  # I counts the workers of both pools on a host they share
    if role.stretches:
        first = f"BEFORE * {role.before_gpus} + (I - BEFORE) * {role.gpus}"
        start, end = "BEFORE", "BEFORE + COUNT"
    own = [
        f'export {variable}="$(seq -s , $(({first})) $(({first} + {role.gpus - 1})))"',
        f"PORT=$(({port} + {step} * I))",
    ]
    if engine == "vllm" and d.disaggregated:
        own.append(f"export VLLM_NIXL_SIDE_CHANNEL_PORT=$(({beside['vllm_nixl_side_channel']} + {first}))")
    if engine == "sglang" and role.name == "prefill":
        own.append(f"BOOTSTRAP=$(({kubernetes()['ports']['sglang_bootstrap']} + {step} * I))")
        arguments.append(("--disaggregation-bootstrap-port", BOOTSTRAP))
    return [
        *config,
        *nixl_host(d, engine),
        *_count(role, host),
        "PIDS=()",
        """trap 'kill "${PIDS[@]}" 2> /dev/null || true' EXIT INT TERM""",
        f"for ((I = {start}; I < {end}; I++)); do",
        "(",
        *own,
        "exec " + shell_command(module.program(d), arguments),
        ") &",
        "PIDS+=($!)",
        "done",
        "STATUS=0",
        'for PID in "${PIDS[@]}"; do wait "$PID" || STATUS=$?; done',
        'exit "$STATUS"',
    ]


def nixl_host(d: Deployment, engine: str) -> list[str]:
    """Where vLLM's workers of a disaggregated deployment tell each other to fetch KV from: without it, localhost."""
    if engine != "vllm" or not d.disaggregated:
        return []
    variable = vendors()["shared_host"]["vllm_nixl_host"]
    return [f'export {variable}="${{{variable}:-$(hostname -I | cut -d " " -f 1)}}"']


def _count(role: Role, host: str) -> list[str]:
    """COUNT, the workers of this host: the last host may have fewer. Where pools share hosts also BEFORE, those of the
    other pool that take its first GPUs.
    """
    if role.hosts == 1 and not role.stretches:
        return [f"COUNT={role.workers}"]
    workers = "workers" if role.name == "serve" else f"{role.name} workers"
    known = f"{workers} are on {on_hosts(role)}"
    given = [
        f"HOST={host}",
        'case "$HOST" in',
        f'*[!0-9]*) echo "HOST is a number, not $HOST: {known}" >&2; exit 2 ;;',
        "esac",
    ]
    none = [
        'if [ "$COUNT" -lt 1 ]; then',
        f'  echo "no worker on host $HOST: {known}" >&2; exit 2',
        "fi",
    ]
    if role.stretches:
        found = [
            f'if [ "$HOST" -ge {s.first} ] && [ "$HOST" -lt {s.last} ]; then BEFORE={s.before}; COUNT={s.own}; fi'
            for s in role.stretches
        ]
        return [*given, "BEFORE=0", "COUNT=0", *found, *none]
    return [
        *given,
        f"COUNT=$(({role.workers} - HOST * {role.per_host}))",
        f'if [ "$COUNT" -gt {role.per_host} ]; then COUNT={role.per_host}; fi',
        *none,
    ]
