"""Terms of a rank's memory on one kind of pipeline stage (first, middle, last), and how the engine's share divides what
is left: the arithmetic below :mod:`planner.memory.budget`, which picks the tightest stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.hardware.device import Device
from planner.memory.coefficients import EngineMemory, Fitted
from planner.memory.sharding import padded
from planner.memory.weights import StageTable
from planner.memory.workspace import (
    LayerWidths,
    expert_collectives,
    expert_workspace,
    forward_peak,
    graph_pool,
    graph_terms,
    sampler_peak,
    tensor_collectives,
)
from planner.model.precision import FORMATS, PrecisionPlan
from planner.units import GIB

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StageTerms:
    """What a rank of one kind of pipeline stage takes beside its cache, over all candidates."""

    spec: ModelSpec
    precision: PrecisionPlan
    device: Device
    memory: EngineMemory
    fitted: Fitted
    widths: LayerWidths
    table: StageTable
    cuda_graphs: bool
    deepep: bool
    planned: bool
    dispatched: Array
    """Tokens of a rank's decode step in its low-latency dispatch buffers, (n,) or scalar."""

    def terms(self, role: int, seqs: Array, tokens: Array, shape: tuple[int, ...]) -> dict[str, Array]:
        """weights, workspace, collectives, graphs and inner runtime, each (n,)."""
        spec, fitted, widths, table, memory = self.spec, self.fitted, self.widths, self.table, self.memory
        of, shards = table.of, table.shards
        value_bytes = FORMATS[self.precision.activations].bytes_per_value
        piped = table.exists[of, 2]
        pass_on = np.where(piped, fitted.pipeline_hidden_values, 0.0) * widths.hidden * value_bytes * tokens
        forward = forward_peak(widths, fitted, tokens=tokens, tp=shards.tp[of], value_bytes=value_bytes)
        if memory.mla_context_chunk_tokens:
            chunk = memory.mla_context_chunk_tokens * widths.mla_context * value_bytes
            forward = np.maximum(forward, chunk / shards.tp[of])
        samples = ~piped if role == 0 else np.broadcast_to(role == 2, piped.shape)
        vocab = padded(spec.vocab_size, memory.vocab_padding_rows)
        sampler = sampler_peak(
            fitted, max_num_seqs=seqs, vocab=vocab, tokens=tokens, hidden=widths.hidden, value_bytes=value_bytes
        )
        peak = np.maximum(forward, np.where(samples, sampler, 0.0)) + pass_on
        if widths.expert_layers:
            kept = expert_workspace(
                widths,
                tokens=tokens,
                moe_tp=shards.moe_tp[of],
                ep=shards.ep[of],
                attention_dp=table.attention_dp[of],
                value_bytes=value_bytes,
            )
            if self.precision.routed_experts in memory.transient_expert_formats:
                one = widths.experts / shards.moe_tp[of] * value_bytes * tokens
                peak = np.maximum(peak, one + pass_on)
            else:
                peak = peak + kept
        if widths.vision and role == 0:
            # Encoder outputs wait in a cache of one step's tokens.
            peak = peak + tokens * widths.hidden * value_bytes + fitted.encoder_gib * GIB
        return {
            "weights": np.broadcast_to(table.weights[of, role], shape).astype(float),
            "workspace": np.broadcast_to(peak, shape).astype(float),
            "collectives": np.broadcast_to(self._collectives(), shape).astype(float),
            "graphs": np.broadcast_to(self._graphs(role, seqs), shape).astype(float),
            "runtime": np.broadcast_to(
                np.where(piped & (shards.tp[of] == 1), fitted.pipeline_runtime_gib, fitted.runtime_gib) * GIB, shape
            ).astype(float),
        }

    def _graphs(self, role: int, seqs: Array) -> Array:
        if not self.cuda_graphs:
            return np.zeros(())
        of, shards = self.table.of, self.table.shards
        terms = graph_terms(
            self.widths,
            self.memory,
            max_num_seqs=seqs,
            layers=self.table.layers[of, role],
            tp=shards.tp[of],
            moe_tp=shards.moe_tp[of],
            ep=shards.ep[of],
            attention_dp=self.table.attention_dp[of],
            planned=self.planned,
        )
        return graph_pool(self.fitted, terms)

    def _collectives(self) -> Array:
        of, shards = self.table.of, self.table.shards
        ranks = shards.tp if self.memory.collective_group == "tp" else shards.tp * self.table.attention_dp
        total = tensor_collectives(self.fitted, tp=ranks[of], scale_up=self.device.link_bw is not None)
        experts = max((f.experts for f in self.spec.feed_forwards.values() if isinstance(f, MoeFeedForward)), default=0)
        if experts and self.deepep:
            total = total + expert_collectives(
                self.widths,
                self.memory,
                experts=experts,
                ep=shards.ep[of],
                attention_dp=self.table.attention_dp[of],
                redundant=shards.redundant_experts[of],
                tokens=self.dispatched,
            )
        return np.asarray(total)


def divide(terms: dict[str, Array], memory: EngineMemory, share: Array, capacity: float, version: str | None) -> None:
    """Adds ``kv``, ``margin`` and the outer context to ``terms`` by the engine's meaning of its share.

    share_of_total (vLLM): kv = share x capacity - weights - workspace - collectives - runtime [- graphs].
    share_of_free_before_load (SGLang): kv = share x (capacity - context - collectives - runtime) - weights.
    share_of_free_after_load (TensorRT-LLM): kv = share x (capacity - everything else).
    """
    context = memory.context_gib * GIB
    inner = terms["weights"] + terms["workspace"] + terms["collectives"] + terms["runtime"]
    everything = inner + terms["graphs"] + context
    if memory.semantics == "share_of_total":
        inside = inner + (terms["graphs"] if memory.graphs_in_budget(version) else 0.0)
        kv = share * capacity - inside
    elif memory.semantics == "share_of_free_before_load":
        kv = share * (capacity - context - terms["collectives"] - terms["runtime"]) - terms["weights"]
    else:
        free = capacity - everything
        # A share of nothing is nothing: a lack of memory is reported in full.
        kv = np.where(free > 0, share * free, free)
    terms["kv"] = np.asarray(kv)
    terms["runtime"] = terms["runtime"] + context
    terms["margin"] = capacity - everything - terms["kv"]
