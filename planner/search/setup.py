"""Everything a search shares, resolved once from the scenario: model, formats, engine, traffic, hardware, prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.loader import Catalog
from planner.catalog.model_spec import ModelSpec
from planner.catalog.scheduler_spec import SchedulerSpec, scheduler_spec
from planner.economics.cost import GpuPrice, gpu_price
from planner.economics.energy import NodePower, node_power, power_model
from planner.errors import InputError
from planner.evidence.profile_overlay import METRICS, Adjustment, profile_adjustment, read_overlays
from planner.hardware.curves import Curve, CurveSet, curves
from planner.hardware.device import Device, device
from planner.hardware.fabric import fabric
from planner.layout.engine_rules import DraftMethod
from planner.layout.node_shape import NodeShape
from planner.memory.coefficients import engine_memory, version_key
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import default_expert_skew, step_coefficients
from planner.roofline.program import program
from planner.roofline.step import StepContext
from planner.scenario.lengths import Length
from planner.scenario.load import resolve_model
from planner.scenario.loads import ClosedLoop
from planner.scenario.schema import NodeChoice, Scenario
from planner.serving.length_shape import LengthShape
from planner.serving.prefix_cache import Hits, computed_shape
from planner.serving.speculative import acceptance_from_length, extra_kv_tokens, in_steps, steps_for
from planner.serving.worker import Traffic
from planner.units import MILLISECOND

DEFAULT_WORKER_GPUS = 64
"""Largest worker tried where the scenario names none."""


@dataclass(frozen=True)
class Hardware:
    """One node type as the scenario uses it."""

    engine: str
    choice: NodeChoice
    node: Node
    accelerator: Accelerator
    device: Device
    shape: NodeShape
    ctx: StepContext
    price: GpuPrice | None
    power: NodePower
    token_budget: int
    """The engine's default tokens per step on this accelerator."""
    own_runs: Mapping[str, Adjustment]
    """By metric (tpot, ttft, throughput): what the user's own runs of this deployment say, from their catalogue."""

    @property
    def id(self) -> str:
        return self.choice.node

    @property
    def gpus_per_node(self) -> int:
        return self.shape.gpus

    @property
    def usd_per_gpu_hour(self) -> float:
        """NaN where no price is known."""
        return float("nan") if self.price is None else self.price.usd_per_gpu_hour

    @property
    def curves_used(self) -> tuple[Curve, ...]:
        """Operator curves that evaluations have asked for so far."""
        return tuple(self.ctx.curves.used())


@dataclass(frozen=True)
class Setup:
    """A scenario with every name resolved."""

    scenario: Scenario
    catalog: Catalog
    spec: ModelSpec
    precision: PrecisionPlan
    scheduler: SchedulerSpec
    _hardware: dict[tuple[str, int | None], Hardware] = field(default_factory=dict)

    @cached_property
    def limits_s(self) -> Mapping[str, Mapping[str, float]]:
        """Latency limits in seconds by metric ("ttft", ...) and by "mean" or percentile."""
        found: dict[str, dict[str, float]] = {}
        for metric, level, limit in self.scenario.slo.limits():
            found.setdefault(metric.removesuffix("_ms"), {})[level] = limit * MILLISECOND
        return found

    @cached_property
    def traffic(self) -> Traffic:
        """Mean lengths and prefix hits.

        A step sees long outputs more often than short ones: on average half of E[O^2] / E[O] tokens of output are in
        the cache beside the prompt.
        """
        w = self.scenario.workload
        inputs, outputs = float(w.input_tokens.mean()), self.output_shape
        context = inputs + 0.5 * outputs.mean * outputs.moment(2) + extra_kv_tokens(self.acceptance)
        return Traffic(inputs, float(w.output_tokens.mean()), float(w.prefix_hit_rate), context_tokens=context)

    @cached_property
    def acceptance(self) -> tuple[float, ...]:
        """Chance by position that a draft token is accepted; empty without speculation."""
        given = self.scenario.engine.options.speculation
        if given is None:
            return ()
        if given.acceptance is not None:
            return given.acceptance
        return acceptance_from_length(given.tokens_per_step or 1.0, given.tokens)

    @property
    def drafts(self) -> DraftMethod | None:
        """How workers draft; None without speculation."""
        given = self.scenario.engine.options.speculation
        return None if given is None else given.method

    @property
    def request_share(self) -> float:
        """Part of the KV memory that running requests may take; cached prefixes keep the rest."""
        return 1.0 - (self.scenario.engine.options.prefix_cache_share or 0.0)

    @property
    def keeps_mtp(self) -> bool:
        """Whether the model's multi-token-prediction block stays in memory."""
        given = self.scenario.engine.options.speculation
        return given is not None and given.method == "mtp" and self.spec.mtp is not None

    @cached_property
    def step_traffic(self) -> Traffic:
        """As engines step through it: output lengths count decode steps, which make several tokens with speculation."""
        steps = 1.0 + float(steps_for(float(self.traffic.output_tokens) - 1.0, self.acceptance))
        return replace(self.traffic, output_tokens=steps, drafts=len(self.acceptance))

    @cached_property
    def step_shape(self) -> LengthShape:
        """Outputs in decode steps."""
        return in_steps(self.output_shape, self.acceptance)

    @cached_property
    def prompt_shape(self) -> LengthShape:
        """Prompts, cut at the model's context."""
        return LengthShape.of(self.scenario.workload.input_tokens, float(self.spec.max_context_tokens))

    @cached_property
    def hits(self) -> Hits:
        """Which prompts are found in the prefix cache."""
        w, rate = self.scenario.workload, float(self.traffic.prefix_hit_rate)
        if rate > 0.0 and w.prefix_hit_requests is not None:
            return Hits(w.prefix_hit_requests, rate / w.prefix_hit_requests)
        if rate > 0.0 and w.prefix_reuse is not None:
            part = float(w.prefix_reuse.tokens) / float(self.traffic.input_tokens)
            return Hits(min(rate / part, 1.0), part, float(w.prefix_reuse.tokens))
        return Hits(1.0, rate)

    @cached_property
    def computed_shape(self) -> LengthShape:
        """Prompt tokens that are computed."""
        return computed_shape(self.prompt_shape, self.hits)

    @cached_property
    def output_shape(self) -> LengthShape:
        """Outputs, cut at the scenario's limit and the model's context."""
        w = self.scenario.workload
        longest = min(w.max_new_tokens or np.inf, self.spec.max_context_tokens)
        return LengthShape.of(w.output_tokens, float(longest))

    @property
    def longest_request(self) -> int:
        """Tokens one request may need: the engine's limit, else the longest prompt plus output, within the model.

        A length without an upper end counts with its 99.9th percentile.
        """
        w = self.scenario.workload
        given = self.scenario.engine.options.max_model_len
        longest = _longest(w.input_tokens) + (w.max_new_tokens or _longest(w.output_tokens))
        return min(given or longest, self.spec.max_context_tokens)

    @property
    def prompts_unsplit(self) -> bool:
        """Whether the scenario wants every prompt in one step: engines start only where the longest request fits it."""
        return self.scenario.engine.options.chunked_prefill is False

    @property
    def rate_rps(self) -> float | None:
        """Offered load in requests per second; None in a closed loop."""
        return self.scenario.workload.arrival.rate()

    @property
    def in_flight(self) -> int | None:
        """Requests that a closed loop keeps in flight over the whole deployment; None for an offered rate."""
        arrival = self.scenario.workload.arrival
        return arrival.concurrency if isinstance(arrival, ClosedLoop) else None

    @property
    def max_worker_gpus(self) -> int:
        return self.scenario.hardware.max_gpus_per_worker or DEFAULT_WORKER_GPUS

    def hardware(self, choice: NodeChoice) -> Hardware:
        """A node type of the scenario, resolved once."""
        key = (choice.node, choice.gpus)
        if key not in self._hardware:
            self._hardware[key] = _hardware(self, choice)
        found = self._hardware[key]
        return found if found.choice == choice else replace(found, choice=choice)


def _longest(length: Length) -> int:
    most = float(length.maximum())
    return int(most if np.isfinite(most) else np.ceil(length.quantile(0.999)))


def setup(scenario: Scenario, catalog: Catalog) -> Setup:
    """Resolve a scenario. Raises InputError (UnknownNameError) for names the catalogue does not have."""
    spec = resolve_model(scenario, catalog)
    precision = PrecisionPlan.from_checkpoint(spec).with_overrides(scenario.precision.given())
    if scenario.engine.version is not None:
        version_key(scenario.engine.version)  # refuses what is no version before any node is looked at
    found = Setup(scenario, catalog, spec, precision, scheduler_spec(catalog, scenario.engine.name))
    _check_context(found)
    return found


def _check_context(s: Setup) -> None:
    """Raises InputError where requests are longer than the model's context: no engine serves them, none is cut here.

    A length without an upper end must fit in the mean; what lies beyond the context is refused by engines.
    """
    most, w = s.spec.max_context_tokens, s.scenario.workload
    limit = s.scenario.engine.options.max_model_len
    if limit is not None and limit > most:
        raise InputError("engine.options.max_model_len", limit, f"at most {most:,}, the context of {s.spec.id}")
    ends = [float(length.maximum()) for length in (w.input_tokens, w.output_tokens)]
    longest = sum(ends) if np.isfinite(ends).all() else float(w.input_tokens.mean() + w.output_tokens.mean())
    if longest > (limit or most):
        what = "engine.options.max_model_len" if limit else f"the context of {s.spec.id}"
        allowed = f"at most {limit or most:,} tokens with the output, {what}"
        raise InputError("workload.input_tokens", f"{longest:,.0f} tokens with the output", allowed)
    drafts = s.scenario.engine.options.speculation
    if drafts is not None and drafts.method == "mtp" and s.spec.mtp is None:
        allowed = f"eagle3: {s.spec.id} has no multi-token-prediction block"
        raise InputError("engine.options.speculation.method", "mtp", allowed)
    budget = s.scenario.engine.options.max_num_batched_tokens
    if s.prompts_unsplit and budget is not None and budget < s.longest_request:
        allowed = f"at least {s.longest_request:,}, the longest request: engine.options.chunked_prefill is false"
        raise InputError("engine.options.max_num_batched_tokens", budget, allowed)


def _hardware(s: Setup, choice: NodeChoice) -> Hardware:
    node = s.catalog.node(choice.node)
    accelerator = s.catalog.accelerator(node.accelerator)
    here = device(accelerator, node)
    domain = fabric(node, accelerator).domain
    gpus = choice.gpus or node.gpus
    nics, host = node.nics.count if node.nics else None, node.gpus_per_host
    shape = NodeShape(node.id, gpus, min(domain, gpus), nics, None if host is None or host >= gpus else host)
    options = s.scenario.engine.options
    skew = options.expert_skew if options.expert_skew is not None else default_expert_skew()
    engine = s.scenario.engine.name
    used: CurveSet = curves(here, engine)
    own = _own_runs(s, accelerator.id)
    coefficients = step_coefficients(engine, accelerator.arch)
    if own:
        coefficients = coefficients.slowed(_factor(own, "tpot"), _factor(own, "ttft"))
    ctx = StepContext(
        program=program(s.spec),
        precision=s.precision,
        curves=used,
        coefficients=coefficients,
        domain=shape.tp_domain,
        expert_skew=skew,
        cuda_graphs=options.cuda_graphs is not False,
        whole_dense=engine_memory(engine, s.catalog).whole_dense,
    )
    return Hardware(
        engine=engine,
        choice=choice,
        node=node,
        accelerator=accelerator,
        device=here,
        shape=shape,
        ctx=ctx,
        price=gpu_price(s.scenario.economics.usd_per_gpu_hour, node.id, accelerator.id, s.catalog.prices()),
        power=node_power(node, accelerator, power_model()),
        token_budget=s.scheduler.default_token_budget(here.mem_bytes),
        own_runs=own,
    )


def _own_runs(s: Setup, accelerator: str) -> dict[str, Adjustment]:
    overlays = read_overlays(s.catalog.user_dir)
    name, engine = s.spec.hf_id or s.spec.id, s.scenario.engine.name
    found = {m: profile_adjustment(overlays, name, accelerator, engine, m) for m in METRICS} if overlays else {}
    return {metric: adjustment for metric, adjustment in found.items() if adjustment is not None}


def _factor(own: Mapping[str, Adjustment], metric: str) -> float:
    """Measured over predicted time of a metric, as the user's own runs show it."""
    return float(np.exp(own[metric].log_shift)) if metric in own else 1.0


def with_rate(s: Setup, rate_rps: float) -> Setup:
    """The same at another offered rate, in requests per second."""
    scenario = s.scenario
    arrival = scenario.workload.arrival.model_copy(update={"rate_rps": rate_rps})
    workload = scenario.workload.model_copy(update={"arrival": arrival})
    return replace(s, scenario=scenario.model_copy(update={"workload": workload}))
