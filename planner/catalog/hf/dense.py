"""Dense decoders: Llama, Mistral, Qwen 1/2/3, Phi-2/3/4, Gemma 1/2/3, Granite."""

from __future__ import annotations

from planner.catalog.hf.draft import Draft, ModuleNames
from planner.catalog.hf.parts import add_windowed, depth, gqa, layer_types, qwen_windows, start
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import DenseFeedForward

_FUSED_PHI3 = ModuleNames(qkv=("qkv_proj",), mlp_parts=("gate_up_proj", "down_proj"))


def _finish(draft: Draft, attention_keys: list[str], feed_forward: DenseFeedForward) -> Draft:
    draft.feed_forwards["dense"] = feed_forward
    draft.layers = [(key, "dense") for key in attention_keys]
    return draft


def llama(reader: ConfigReader) -> Draft:
    """Llama 2/3 and Granite: attention_bias covers q, k, v and o; mlp_bias the whole MLP."""
    draft = start(reader)
    bias = reader.flag("attention_bias")
    draft.attentions["full"] = gqa(reader, qkv_bias=bias, o_bias=bias)
    feed_forward = DenseFeedForward(intermediate_size=reader.integer("intermediate_size"), bias=reader.flag("mlp_bias"))
    return _finish(draft, ["full"] * depth(reader), feed_forward)


def mistral(reader: ConfigReader) -> Draft:
    """Mistral: a set sliding_window holds on every layer."""
    draft = start(reader)
    window = reader.optional_integer("sliding_window")
    types = layer_types(reader, ("full_attention", "sliding_attention"))
    windowed = [t == "sliding_attention" for t in types] if types else [window is not None] * depth(reader)
    keys = add_windowed(draft, gqa(reader), windowed, window)
    return _finish(draft, keys, DenseFeedForward(intermediate_size=reader.integer("intermediate_size")))


def qwen1(reader: ConfigReader) -> Draft:
    """Qwen 1 (QWenLMHeadModel): biased c_attn, unbiased c_proj; intermediate_size is gate and up together."""
    draft = start(reader)
    reader.require("no_bias", [True], "biased projections were never published")
    reader.require("fp16", [True, False], "")
    reader.require("bf16", [True, False], "")
    reader.understood("fp32", "seq_length")
    draft.attentions["full"] = gqa(reader, qkv_bias=True)
    draft.names = ModuleNames(
        attention="attn", qkv=("c_attn",), out="c_proj", mlp="mlp", mlp_parts=("w1", "w2", "c_proj")
    )
    both = reader.integer("intermediate_size")
    return _finish(draft, ["full"] * depth(reader), DenseFeedForward(intermediate_size=both // 2))


def qwen2(reader: ConfigReader) -> Draft:
    """Qwen 2/2.5: q, k and v biased."""
    draft = start(reader)
    windowed, window = qwen_windows(reader)
    keys = add_windowed(draft, gqa(reader, qkv_bias=True), windowed, window)
    return _finish(draft, keys, DenseFeedForward(intermediate_size=reader.integer("intermediate_size")))


def qwen3(reader: ConfigReader) -> Draft:
    """Qwen 3: q and k normed per head."""
    draft = start(reader)
    bias = reader.flag("attention_bias")
    windowed, window = qwen_windows(reader)
    attention = gqa(reader, qkv_bias=bias, o_bias=bias, qk_norm="per_head")
    keys = add_windowed(draft, attention, windowed, window)
    return _finish(draft, keys, DenseFeedForward(intermediate_size=reader.integer("intermediate_size")))


def phi2(reader: ConfigReader) -> Draft:
    """Phi-1/2: parallel attention and MLP behind one LayerNorm, biases everywhere, ungated MLP."""
    draft = start(reader)
    reader.require("qk_layernorm", [False], "norms of q and k in phi are not understood")
    draft.attentions["full"] = gqa(reader, qkv_bias=True, o_bias=True)
    draft.norms_per_layer = 1
    draft.norm_bias = True
    draft.head_bias = True
    draft.names = ModuleNames(out="dense", mlp_parts=("fc1", "fc2"))
    feed_forward = DenseFeedForward(
        intermediate_size=reader.integer("intermediate_size", "n_inner"), gated=False, bias=True
    )
    return _finish(draft, ["full"] * depth(reader), feed_forward)


def phi3(reader: ConfigReader) -> Draft:
    """Phi-3/4: fused qkv and gate_up, no biases; a set sliding_window holds on every layer."""
    draft = start(reader)
    reader.require("attention_bias", [False], "Phi-3 has no attention bias")
    reader.require("mlp_bias", [False], "Phi-3 has no MLP bias")
    reader.require("lm_head_bias", [False], "a biased head is not understood")
    reader.require("full_attn_mod", [1], "only full attention on every layer is understood")
    window = reader.optional_integer("sliding_window")
    keys = add_windowed(draft, gqa(reader), [window is not None] * depth(reader), window)
    draft.names = _FUSED_PHI3
    return _finish(draft, keys, DenseFeedForward(intermediate_size=reader.integer("intermediate_size")))


def gemma1(reader: ConfigReader) -> Draft:
    """Gemma 1: head_dim 256, tied embedding, two norms a layer."""
    draft = start(reader)
    bias = reader.flag("attention_bias")
    draft.attentions["full"] = gqa(reader, qkv_bias=bias, o_bias=bias)
    feed_forward = DenseFeedForward(intermediate_size=reader.integer("intermediate_size"))
    return _finish(draft, ["full"] * depth(reader), feed_forward)


def gemma2(reader: ConfigReader) -> Draft:
    """Gemma 2: every even layer (from 0) windowed, four norms a layer."""
    draft = start(reader)
    types = layer_types(reader, ("full_attention", "sliding_attention"))
    windowed = [t == "sliding_attention" for t in types] if types else [i % 2 == 0 for i in range(depth(reader))]
    return _gemma(reader, draft, windowed, qk_norm="none")


def gemma3(reader: ConfigReader) -> Draft:
    """Gemma 3: all but every sliding_window_pattern-th layer windowed, four norms a layer, q and k normed."""
    draft = start(reader)
    types = layer_types(reader, ("full_attention", "sliding_attention"))
    period = reader.optional_integer("_sliding_window_pattern") or reader.integer("sliding_window_pattern")
    reader.require("use_bidirectional_attention", [False], "bidirectional attention is not understood")
    if types:
        windowed = [t == "sliding_attention" for t in types]
    else:
        windowed = [(i + 1) % period != 0 for i in range(depth(reader))]
    return _gemma(reader, draft, windowed, qk_norm="per_head")


def _gemma(reader: ConfigReader, draft: Draft, windowed: list[bool], qk_norm: str) -> Draft:
    bias = reader.flag("attention_bias")
    attention = gqa(reader, qkv_bias=bias, o_bias=bias, qk_norm=qk_norm)
    keys = add_windowed(draft, attention, windowed, reader.integer("sliding_window", "sliding_window_size"))
    draft.norms_per_layer = 4
    return _finish(draft, keys, DenseFeedForward(intermediate_size=reader.integer("intermediate_size")))
