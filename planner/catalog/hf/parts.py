"""Pieces that several architectures share: heads, windows, layer kinds."""

from __future__ import annotations

from planner.catalog.hf.draft import Draft
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import GqaAttention
from planner.errors import UnsupportedArchitectureError

MAX_LAYERS = 10_000
"""Far above any model; keeps a broken config from filling memory with layers."""


def start(reader: ConfigReader) -> Draft:
    """Sizes that every decoder has."""
    return Draft(
        hidden_size=reader.integer("hidden_size"),
        vocab_size=reader.integer("vocab_size"),
        max_context_tokens=reader.integer("max_position_embeddings", "seq_length", "model_max_length"),
    )


def depth(reader: ConfigReader) -> int:
    layers = reader.integer("num_hidden_layers")
    if layers > MAX_LAYERS:
        raise UnsupportedArchitectureError([reader.key("num_hidden_layers")], f"at most {MAX_LAYERS}, not {layers}")
    return layers


def gqa(
    reader: ConfigReader,
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    qk_norm: str = "none",
    output_gate: bool = False,
    sinks: bool = False,
) -> GqaAttention:
    """Attention of the usual keys: a missing num_key_value_heads is MHA, a missing head_dim is hidden / heads."""
    heads = reader.integer("num_attention_heads")
    kv_heads = reader.optional_integer("num_key_value_heads") or heads
    hidden = reader.integer("hidden_size")
    head_dim = reader.optional_integer("head_dim", "kv_channels")
    if head_dim == 0:
        raise UnsupportedArchitectureError([reader.key("head_dim")], "must be at least 1, not 0")
    if head_dim is None:
        if hidden % heads:
            raise UnsupportedArchitectureError(
                [reader.key("head_dim")], f"missing, and hidden_size {hidden} is no multiple of {heads} heads"
            )
        head_dim = hidden // heads
    if heads % kv_heads:
        raise UnsupportedArchitectureError(
            [reader.key("num_key_value_heads")], f"{kv_heads} does not divide {heads} attention heads"
        )
    return GqaAttention.model_validate(
        {
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "qkv_bias": qkv_bias,
            "o_bias": o_bias,
            "qk_norm": qk_norm,
            "output_gate": output_gate,
            "sinks": sinks,
        }
    )


def layer_types(reader: ConfigReader, allowed: tuple[str, ...]) -> list[str] | None:
    """``layer_types`` when given: one known name a layer."""
    if not reader.items("layer_types"):
        return None
    types = [str(t) for t in reader.items("layer_types")]
    unknown = sorted(set(types) - set(allowed))
    if unknown:
        raise UnsupportedArchitectureError(
            [f"{reader.key('layer_types')}: {name}" for name in unknown],
            f"layer kinds understood here: {', '.join(allowed)}",
        )
    if len(types) != depth(reader):
        raise UnsupportedArchitectureError(
            [reader.key("layer_types"), reader.key("num_hidden_layers")],
            f"{len(types)} layer types for {depth(reader)} layers",
        )
    return types


def add_windowed(draft: Draft, attention: GqaAttention, windowed: list[bool], window: int | None) -> list[str]:
    """Registers the full and the windowed variant; returns the attention key of each layer.

    A window that covers the whole context is full attention.
    """
    if window is None or window >= draft.max_context_tokens or not any(windowed):
        draft.attentions["full"] = attention
        return ["full"] * len(windowed)
    draft.attentions["window"] = attention.model_copy(update={"window_tokens": window})
    if not all(windowed):
        draft.attentions["full"] = attention
    return ["window" if w else "full" for w in windowed]


def qwen_windows(reader: ConfigReader) -> tuple[list[bool], int | None]:
    """Qwen 2/3: with use_sliding_window, layers from max_window_layers on are windowed."""
    count = depth(reader)
    window = reader.optional_integer("sliding_window")
    first = reader.optional_integer("max_window_layers")
    use = reader.flag("use_sliding_window")
    types = layer_types(reader, ("full_attention", "sliding_attention"))
    if not use:
        return [False] * count, None
    if types is not None:
        return [t == "sliding_attention" for t in types], window
    if first is None:
        raise UnsupportedArchitectureError([reader.key("max_window_layers")], "needed where use_sliding_window is true")
    return [i >= first for i in range(count)], window
