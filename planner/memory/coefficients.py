"""How an engine divides device memory: schema and loader of ``hardware_db/engines/memory/<engine>.yaml``.

The hand-written part states semantics (what the memory share means, how layers split over stages, which buffers
sit inside the budget); the ``fitted`` part is regenerated from measured start-ups by
:func:`planner.evidence.memory_calibrate.calibrate_memory`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from planner.catalog import Catalog, catalog
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import InputError
from planner.units import GIB

Status = Literal["measured", "source_code", "assumed"]


class ShareDefault(Strict):
    """Default of the engine's memory share from a version on; ``share`` None: computed by ``default_reserve``."""

    from_version: str
    share: PositiveFloat | None
    source: str


class CountDefault(Strict):
    """A default that depends on the memory of the accelerator."""

    min_memory_gib: NonNegativeFloat
    count: PositiveInt


class Reserve(Strict):
    """SGLang's automatic reserve outside weights and KV, in MiB, from which it derives its memory share."""

    constant_mib: NonNegativeFloat
    per_prefill_token_mib: NonNegativeFloat
    min_prefill_tokens: PositiveInt
    per_graph_sequence_mib: NonNegativeFloat
    per_rank_mib: NonNegativeFloat
    floor_mib: NonNegativeFloat
    floor_from_memory_gib: NonNegativeFloat
    source: str


class RopeCache(Strict):
    """cos/sin tables: positions x rotary dimension x bytes_per_value for each kind of attention."""

    bytes_per_value: PositiveFloat
    position_factor_by_family: dict[str, float] = Field(default_factory=dict)
    "Linear rope scaling stretches the table of the full-attention layers."
    source: str


class Mxfp4Padding(Strict):
    """MXFP4 kernels pad the expert width of a rank (and the hidden size) to multiples of these counts."""

    expert_width: PositiveInt
    hidden: PositiveInt
    source: str


class GraphCapture(Strict):
    """Decode batch sizes captured in CUDA graphs: 1, 2, 4, steps of 8 below ``fine_until``, then of ``coarse_step``."""

    largest: PositiveInt
    "The engine's own limit."
    largest_planned: PositiveInt | None = None
    "The limit where launch scripts set it to the plan's sequences; None where they leave it to the engine."
    sequences_factor: PositiveFloat
    "Largest captured size is min(limit, sequences_factor x max_num_seqs)."
    fine_until: PositiveInt
    coarse_step: PositiveInt
    graphs_per_size: PositiveFloat
    source: str


class Fitted(Strict):
    """Coefficients from a version on. GiB are of one rank."""

    from_version: str
    sampler_bytes_per_logit: NonNegativeFloat
    "Peak bytes per (sequence, vocabulary row) of sampling, beyond the logits in the model's own type."
    sampler_hidden_values: NonNegativeFloat
    "Activations per (batched token, hidden unit) alive beside the sampler peak."
    forward_hidden_values: NonNegativeFloat
    "Values per (batched token, hidden unit) alive at the peak of a layer, beside its widest intermediate."
    pipeline_hidden_values: NonNegativeFloat
    "Values per (batched token, hidden unit) of the buffers between pipeline stages."
    encoder_gib: NonNegativeFloat
    "Vision encoder activations beside its output cache."
    runtime_gib: NonNegativeFloat
    "Non-torch memory of a single-GPU worker inside the budget."
    pipeline_runtime_gib: NonNegativeFloat
    "The same for ranks of a pipeline without tensor parallelism."
    collectives_gib: NonNegativeFloat
    "Custom all-reduce, symmetric memory and NCCL buffers of a TP group on a scale-up fabric."
    collectives_per_rank_gib: NonNegativeFloat
    "The same per rank of the group beyond two."
    graph_base_gib: NonNegativeFloat
    graph_layer_kib: NonNegativeFloat
    "Graph pool per (captured graph, layer)."
    graph_dense_bytes: NonNegativeFloat
    "Graph pool per (token of the largest graph, value of the rank's share of the widest dense MLP)."
    graph_expert_bytes: NonNegativeFloat
    "The same for the experts of a token."
    points: NonNegativeInt
    median_abs_residual_gib: dict[str, float] = Field(default_factory=dict)
    p90_abs_residual_gib: dict[str, float] = Field(default_factory=dict)
    status: Status
    source: str
    note: str = ""


class EngineMemory(Strict):
    id: str
    name: str
    share_option: str
    "The engine's own name of the memory share."
    semantics: Literal["share_of_total", "share_of_free_before_load", "share_of_free_after_load"]
    default_share: tuple[ShareDefault, ...] = Field(min_length=1)
    default_reserve: Reserve | None = None
    default_max_num_seqs: tuple[CountDefault, ...] = Field(min_length=1)
    graphs_in_budget_from: str | None
    "First version that subtracts the graph pool before sizing the KV cache; None never does."
    graphs_logged_from: str | None = None
    "First version whose logged graph memory is the pool alone; earlier ones take off what was freed meanwhile."
    context_gib: NonNegativeFloat
    "CUDA context outside the budget."
    block_tokens: PositiveInt
    hybrid_pages: Literal["padded_groups", "per_layer"]
    "padded_groups: layers of all kinds in groups of equal size share one page pool; per_layer: a pool for each kind."
    vocab_padding_rows: PositiveInt
    pipeline_remainder: Literal["before_last", "first"]
    "Which stages take the layers left over when stages do not divide the depth."
    dense_split: Literal["tp", "whole"]
    "What a rank holds of dense MLPs and embedding under attention DP: its share of tp ranks, or all of them."
    collective_group: Literal["tp", "stage"]
    "Ranks of the communicator whose buffers grow with it: those of attention TP, or all of a pipeline stage."
    vision_split: Literal["tp", "replicated"]
    transient_expert_formats: tuple[str, ...]
    "Expert formats whose kernels keep no workspace between layers."
    mla_context_chunk_tokens: NonNegativeInt
    "Tokens of cached context that a prefill expands at once (chunked prefill of MLA)."
    deepep_tokens_per_rank: NonNegativeInt
    "Tokens per rank that the low-latency dispatch buffers are sized for by themselves; scripts set what a plan needs."
    deepep_most_tokens_per_rank: PositiveInt | None
    "The most they can be sized for; None where the engine has dispatch kernels of its own."
    deepep_split_over_tp: bool
    "Whether the ranks of an attention replica share its tokens in these buffers, or each has room for all of them."
    deepep_normal_buffer_gib: NonNegativeFloat
    rope_cache: RopeCache | None
    mxfp4_padding: Mxfp4Padding | None
    graph_capture: GraphCapture
    fitted: tuple[Fitted, ...] = Field(min_length=1)
    versions: tuple[str, ...] = ()
    sources: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def whole_dense(self) -> bool:
        """Whether ranks hold dense MLPs and embedding whole under attention DP."""
        return self.dense_split == "whole"

    def coefficients(self, version: str | None) -> Fitted:
        """Coefficients that hold for an engine version; None is the newest."""
        return max(
            (f for f in self.fitted if not is_before(version, f.from_version)),
            key=lambda f: version_key(f.from_version),
            default=min(self.fitted, key=lambda f: version_key(f.from_version)),
        )

    def beyond_known(self, version: str | None) -> str:
        """Whether ``version`` lies outside the versions known here, as a sentence; empty where it does not."""
        if version is None or not self.versions:
            return ""
        known = sorted(self.versions, key=version_key)
        given, oldest, newest = (version_key(v) for v in (version, known[0], known[-1]))
        newer = given[: len(newest)] > newest  # 1.3.0rc5 is a 1.3
        if not newer and given >= oldest:
            return ""
        side, nearest = ("newer", known[-1]) if newer else ("older", known[0])
        return (
            f"{self.name} {version} is {side} than the versions known here, {known[0]} to {known[-1]}: "
            f"memory terms and step times are extrapolated from {nearest}"
        )

    def graphs_in_budget(self, version: str | None) -> bool:
        """Whether the engine subtracts the CUDA graph pool before it sizes the KV cache."""
        return self.graphs_in_budget_from is not None and not is_before(version, self.graphs_in_budget_from)

    def graphs_logged(self, version: str | None) -> bool:
        """Whether the graph memory that the engine logs is the pool, not the change of free memory."""
        return self.graphs_logged_from is None or not is_before(version, self.graphs_logged_from)

    def max_num_seqs(self, memory_bytes: float) -> int:
        """Sequences per step the engine takes by itself on an accelerator with ``memory_bytes``."""
        fitting = [d for d in self.default_max_num_seqs if memory_bytes / GIB >= d.min_memory_gib]
        return max(fitting, key=lambda d: d.min_memory_gib).count

    def share(self, version: str | None) -> ShareDefault:
        """The default memory share of an engine version."""
        return max(
            (s for s in self.default_share if not is_before(version, s.from_version)),
            key=lambda s: version_key(s.from_version),
            default=min(self.default_share, key=lambda s: version_key(s.from_version)),
        )


def version_key(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparison: '0.22.0rc1' -> (0, 22, 0)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        raise InputError("engine.version", version, "a version that starts with numbers, for example 0.22.0")
    return tuple(int(part) for part in match.group(1).split("."))


def is_before(version: str | None, other: str) -> bool:
    """Whether ``version`` is older than ``other``; None is the newest."""
    return version is not None and version_key(version) < version_key(other)


def engine_memory(engine: str | EngineMemory, known: Catalog | None = None) -> EngineMemory:
    """The memory rules of an engine by name, from ``known`` or the default catalogue; rules given pass through.

    Raises UnknownNameError for an engine that the catalogue does not have, InputError for one without memory rules.
    """
    if isinstance(engine, EngineMemory):
        return engine
    return _load(known or catalog(), engine)


@lru_cache(maxsize=64)
def _load(known: Catalog, name: str) -> EngineMemory:
    parts = known.engine(name)
    if "memory" not in parts:
        raise InputError("engine.name", name, "an engine with memory rules (engines/memory/)")
    return validate(EngineMemory, parts["memory"], f"memory/{name}.yaml")
