"""The model specification: what a checkpoint is made of, in the field's own names.

One YAML file per model in ``model_specs/``; :mod:`planner.catalog.hf_config` makes the same thing from a
Hugging Face ``config.json``. All arithmetic on it (parameters, FLOPs, bytes) lives in :mod:`planner.model`.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator


class Strict(BaseModel):
    """Frozen schema without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Indexer(Strict):
    """Sparse-attention indexer of DeepSeek-V3.2 (lightning indexer)."""

    heads: PositiveInt
    head_dim: PositiveInt
    topk_tokens: PositiveInt


class GqaAttention(Strict):
    """Softmax attention with cached K and V per KV head: MHA (kv_heads = heads), GQA, MQA (kv_heads = 1)."""

    kind: Literal["gqa"] = "gqa"
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    window_tokens: PositiveInt | None = None
    "Sliding window: a token sees at most this many tokens, itself included; None is full attention."
    chunk_tokens: PositiveInt | None = None
    "Chunked local attention (Llama 4): a token sees its own chunk only."
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "per_head", "full"] = "none"
    "per_head: weights of head_dim (Qwen3, Gemma 3); full: weights of heads x head_dim (MiniMax-M2)."
    output_gate: bool = False
    "q_proj also yields a gate of heads x head_dim (Qwen3-Next, Qwen3.5)."
    sinks: bool = False
    "One learned sink logit per head (gpt-oss)."


class MlaAttention(Strict):
    """Multi-head latent attention: caches kv_lora_rank + qk_rope_head_dim values per token for all heads."""

    kind: Literal["mla"] = "mla"
    heads: PositiveInt
    q_lora_rank: PositiveInt | None = None
    kv_lora_rank: PositiveInt
    qk_nope_head_dim: PositiveInt
    qk_rope_head_dim: PositiveInt
    v_head_dim: PositiveInt
    indexer: Indexer | None = None


class LinearAttention(Strict):
    """Gated delta-rule linear attention (Qwen3-Next, Qwen3.5): constant state per sequence, no KV cache."""

    kind: Literal["linear"] = "linear"
    key_heads: PositiveInt
    value_heads: PositiveInt
    key_head_dim: PositiveInt
    value_head_dim: PositiveInt
    conv_kernel: PositiveInt
    state_format: Literal["fp32", "bf16"] = "fp32"


class DenseFeedForward(Strict):
    kind: Literal["dense"] = "dense"
    intermediate_size: PositiveInt
    gated: bool = True
    bias: bool = False


class MoeFeedForward(Strict):
    """Routed experts, all resident; ``experts_per_token`` of them are active."""

    kind: Literal["moe"] = "moe"
    experts: PositiveInt
    experts_per_token: PositiveInt
    expert_intermediate_size: PositiveInt
    shared_intermediate_size: NonNegativeInt = 0
    "Summed width of the shared experts; 0 where there is none."
    shared_gate: bool = False
    "A hidden -> 1 gate on the shared expert (Qwen2-MoE, Qwen3-Next, Qwen3.5)."
    router_correction_bias: bool = False
    "Per-expert score correction (aux-loss-free balancing)."
    router_bias: bool = False
    expert_bias: bool = False
    groups: PositiveInt = 1
    "Expert groups of group-limited routing (n_group)."
    groups_per_token: PositiveInt = 1
    "Groups a token may reach (topk_group)."

    @model_validator(mode="after")
    def _uses_known_experts(self) -> MoeFeedForward:
        if self.experts_per_token > self.experts:
            raise ValueError("a token uses at most all experts")
        return self


AttentionSpec = Annotated[GqaAttention | MlaAttention | LinearAttention, Field(discriminator="kind")]
FeedForwardSpec = Annotated[DenseFeedForward | MoeFeedForward, Field(discriminator="kind")]


class LayerGroup(Strict):
    """``count`` identical decoder layers."""

    count: PositiveInt
    attention: str
    "Key of ``attentions``."
    feed_forward: str
    "Key of ``feed_forwards``."
    norms: PositiveInt = 2
    "Norm weights of hidden_size in the layer (Gemma 2/3: 4; phi-2: 1)."


class Mtp(Strict):
    """Multi-token-prediction blocks stored with the checkpoint."""

    blocks: PositiveInt
    attention: str
    feed_forward: str
    norms: PositiveInt = 5
    "Norm weights of hidden_size in a block (2 of its layer, enorm, hnorm, final norm for DeepSeek-V3)."
    own_embedding: bool = False
    "The block repeats embedding and head in the checkpoint (engines share them in memory)."


class Vision(Strict):
    """Vision tower and projector, counted as a whole."""

    parameters: PositiveInt
    source: str


class Published(Strict):
    """What others say about the checkpoint: headline figures as printed, and its exact element count."""

    total_parameters: str | None = None
    active_parameters: str | None = None
    source: str | None = None
    exact_parameters: PositiveInt | None = None
    exact_counts: Literal["main", "total", "with_duplicates"] | None = None
    "Which count of planner.model.parameters the exact figure is."
    exact_source: str | None = None


class RemoteCode(Strict):
    """Python code that comes with the checkpoint, which engines run only when told to."""

    parts: tuple[Literal["config", "model", "tokenizer", "processor"], ...] = Field(min_length=1)
    "What the checkpoint's auto_map entries load from it."
    source: str


class QuantisedCheckpoint(Strict):
    """The same model published in other number formats."""

    hf_id: str
    precision: dict[str, str]
    "Its formats by tensor class, as in the model's own ``precision``."
    source: str


class ModelSpec(Strict):
    """One checkpoint. Sizes are element counts or tokens; bytes follow from ``precision``."""

    id: str
    name: str
    hf_id: str | None = None
    family: str
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    max_context_tokens: PositiveInt
    tie_word_embeddings: bool = False
    attentions: dict[str, AttentionSpec]
    feed_forwards: dict[str, FeedForwardSpec]
    layers: tuple[LayerGroup, ...] = Field(min_length=1)
    layer_pattern: tuple[NonNegativeInt, ...] = ()
    "Group index of each decoder layer, repeated over the depth; empty: the groups follow each other."
    final_norms: NonNegativeInt = 1
    norm_bias: bool = False
    "LayerNorm with bias (phi-2) instead of RMSNorm."
    head_bias: bool = False
    mtp: Mtp | None = None
    vision: Vision | None = None
    precision: dict[str, str]
    "Formats of the checkpoint by tensor class (planner.model.precision); key 'default' is required."
    quantised: tuple[QuantisedCheckpoint, ...] = ()
    "Checkpoints of the same model in other formats, which launch scripts serve where a plan asks for them."
    remote_code: RemoteCode | None = None
    "Code that an engine must be allowed to run (trust_remote_code); None where it has all of it itself."
    published: Published | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """Content hash: equal for equal specifications."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def num_layers(self) -> int:
        """Decoder layers, without MTP blocks."""
        return sum(group.count for group in self.layers)

    @cached_property
    def layer_order(self) -> tuple[int, ...]:
        """Group index of every decoder layer from the first to the last; shape (num_layers,)."""
        if not self.layer_pattern:
            return tuple(index for index, group in enumerate(self.layers) for _ in range(group.count))
        period = len(self.layer_pattern)
        return tuple(self.layer_pattern[i % period] for i in range(self.num_layers))

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        if any("default" not in formats for formats in (self.precision, *(q.precision for q in self.quantised))):
            raise ValueError("precision needs the key 'default'")
        users = [(f"layers.{i}", group.attention, group.feed_forward) for i, group in enumerate(self.layers)]
        if self.mtp is not None:
            users.append(("mtp", self.mtp.attention, self.mtp.feed_forward))
        for where, attention, feed_forward in users:
            if attention not in self.attentions:
                raise ValueError(f"{where}.attention {attention!r} is none of {', '.join(self.attentions)}")
            if feed_forward not in self.feed_forwards:
                raise ValueError(f"{where}.feed_forward {feed_forward!r} is none of {', '.join(self.feed_forwards)}")
        if any(index >= len(self.layers) for index in self.layer_pattern):
            raise ValueError(f"layer_pattern names a group beyond the {len(self.layers)} in layers")
        counts = tuple(self.layer_order.count(i) for i in range(len(self.layers)))
        if counts != tuple(group.count for group in self.layers):
            raise ValueError(f"layer_pattern gives {counts} layers a group, layers say otherwise")
        return self
