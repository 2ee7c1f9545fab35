"""Mixtures of experts on GQA attention: Mixtral, Qwen 2/3 MoE, Llama 4, gpt-oss, MiniMax-M2, GLM-4.5."""

from __future__ import annotations

from planner.catalog.hf.draft import Draft, ModuleNames
from planner.catalog.hf.parts import add_windowed, depth, gqa, layer_types, qwen_windows, start
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import DenseFeedForward, MoeFeedForward, Mtp
from planner.errors import UnsupportedArchitectureError


def mixtral(reader: ConfigReader) -> Draft:
    draft = start(reader)
    window = reader.optional_integer("sliding_window")
    keys = add_windowed(draft, gqa(reader), [window is not None] * depth(reader), window)
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("num_local_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=reader.integer("intermediate_size"),
    )
    draft.layers = [(key, "moe") for key in keys]
    draft.names = ModuleNames(moe="block_sparse_moe", expert_parts=("w1", "w2", "w3"))
    return draft


def sparse_layers(reader: ConfigReader) -> list[bool]:
    """Which layers are MoE in Qwen MoE models: every decoder_sparse_step-th but those in mlp_only_layers."""
    step = reader.optional_integer("decoder_sparse_step") or 1
    dense = set(reader.integers("mlp_only_layers"))
    return [i not in dense and (i + 1) % step == 0 for i in range(depth(reader))]


def qwen_experts(reader: ConfigReader, *, shared: bool) -> MoeFeedForward:
    """Experts of Qwen 2/3 MoE; with ``shared`` one gated shared expert."""
    width = reader.optional_integer("shared_expert_intermediate_size") or 0
    if width and not shared:
        raise UnsupportedArchitectureError(
            [reader.key("shared_expert_intermediate_size")], "this architecture has no shared expert"
        )
    return MoeFeedForward(
        experts=reader.integer("num_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=reader.integer("moe_intermediate_size"),
        shared_intermediate_size=width,
        shared_gate=width > 0,
    )


def add_qwen_feed_forwards(reader: ConfigReader, draft: Draft, moe: MoeFeedForward) -> list[str]:
    """Registers MoE and, where some layers are dense, the dense MLP; returns the key of each layer."""
    sparse = sparse_layers(reader)
    width = reader.optional_integer("intermediate_size")
    draft.feed_forwards["moe"] = moe
    if not all(sparse):
        if width is None:
            raise UnsupportedArchitectureError([reader.key("intermediate_size")], "needed by the dense layers")
        draft.feed_forwards["dense"] = DenseFeedForward(intermediate_size=width)
    return ["moe" if s else "dense" for s in sparse]


def qwen2_moe(reader: ConfigReader) -> Draft:
    draft = start(reader)
    windowed, window = qwen_windows(reader)
    attention = gqa(reader, qkv_bias=reader.flag("qkv_bias", default=True))
    keys = add_windowed(draft, attention, windowed, window)
    feed_forwards = add_qwen_feed_forwards(reader, draft, qwen_experts(reader, shared=True))
    draft.layers = list(zip(keys, feed_forwards, strict=True))
    draft.names = ModuleNames(shared="shared_expert")
    return draft


def qwen3_moe(reader: ConfigReader) -> Draft:
    draft = start(reader)
    bias = reader.flag("attention_bias")
    reader.require("qkv_bias", [bias], "differs from attention_bias")
    reader.require("use_qk_norm", [True], "Qwen 3 always norms q and k")
    windowed, window = qwen_windows(reader)
    attention = gqa(reader, qkv_bias=bias, o_bias=bias, qk_norm="per_head")
    keys = add_windowed(draft, attention, windowed, window)
    feed_forwards = add_qwen_feed_forwards(reader, draft, qwen_experts(reader, shared=False))
    draft.layers = list(zip(keys, feed_forwards, strict=True))
    return draft


def llama4(reader: ConfigReader) -> Draft:
    """Llama 4: chunked local attention on 3 of 4 layers, MoE on every interleave_moe_layer_step-th layer."""
    draft = start(reader)
    count = depth(reader)
    bias = reader.flag("attention_bias")
    reader.understood("use_qk_norm")  # an L2 norm without weights
    full = gqa(reader, qkv_bias=bias, o_bias=bias)
    chunk = reader.optional_integer("attention_chunk_size")
    local = _llama4_local(reader, count)
    draft.attentions["full"] = full
    if chunk is not None and chunk < draft.max_context_tokens and any(local):
        draft.attentions["chunk"] = full.model_copy(update={"chunk_tokens": chunk})
    else:
        local = [False] * count
    width = reader.integer("intermediate_size")
    step = reader.integer("interleave_moe_layer_step")
    moe_layers = set(reader.integers("moe_layers")) or set(range(step - 1, count, step))
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("num_local_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        shared_intermediate_size=width,
    )
    dense_width = reader.integer("intermediate_size_mlp")
    if len(moe_layers) < count:
        draft.feed_forwards["dense"] = DenseFeedForward(intermediate_size=dense_width)
    draft.layers = [("chunk" if local[i] else "full", "moe" if i in moe_layers else "dense") for i in range(count)]
    draft.names = ModuleNames(
        mlp="feed_forward",
        moe="feed_forward",
        router="router",
        shared="shared_expert",
        expert_parts=("gate_up_proj", "down_proj"),
    )
    return draft


def _llama4_local(reader: ConfigReader, count: int) -> list[bool]:
    types = layer_types(reader, ("chunked_attention", "full_attention"))
    rope = reader.integers("no_rope_layers")
    interval = reader.optional_integer("no_rope_layer_interval") or 4
    if types is not None:
        return [t == "chunked_attention" for t in types]
    if rope:
        if len(rope) != count:
            raise UnsupportedArchitectureError([reader.key("no_rope_layers")], f"needs {count} entries")
        return [bool(flag) for flag in rope]
    return [(i + 1) % interval != 0 for i in range(count)]


def gpt_oss(reader: ConfigReader) -> Draft:
    """gpt-oss: window on alternate layers (first one windowed), sinks, biased experts and router."""
    draft = start(reader)
    count = depth(reader)
    bias = reader.flag("attention_bias", default=True)
    types = layer_types(reader, ("full_attention", "sliding_attention"))
    windowed = [t == "sliding_attention" for t in types] if types else [i % 2 == 0 for i in range(count)]
    attention = gqa(reader, qkv_bias=bias, o_bias=bias, sinks=True)
    keys = add_windowed(draft, attention, windowed, reader.integer("sliding_window"))
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("num_local_experts"),
        experts_per_token=reader.integer("num_experts_per_tok", "experts_per_token"),
        expert_intermediate_size=reader.integer("intermediate_size"),
        router_bias=True,
        expert_bias=True,
    )
    draft.layers = [(key, "moe") for key in keys]
    draft.names = ModuleNames(router="router", expert_parts=("gate_up_proj", "down_proj"))
    return draft


def minimax_m2(reader: ConfigReader) -> Draft:
    """MiniMax-M2: q and k normed over all heads; its MTP modules are configured but not in the checkpoint."""
    draft = start(reader)
    count = depth(reader)
    kinds = reader.integers("attn_type_list")
    if any(kind != 1 for kind in kinds):
        raise UnsupportedArchitectureError([reader.key("attn_type_list")], "only 1 (softmax attention) is understood")
    reader.require("qk_norm_type", ["per_layer"], "known: per_layer")
    norm = "full" if reader.flag("use_qk_norm", default=True) else "none"
    draft.attentions["full"] = gqa(reader, qk_norm=norm)
    shared = reader.optional_integer("shared_intermediate_size") or 0
    if shared:
        raise UnsupportedArchitectureError(
            [reader.key("shared_intermediate_size")], "a shared expert in MiniMax is not understood"
        )
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("num_local_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=reader.integer("intermediate_size"),
        router_correction_bias=reader.flag("use_routing_bias", default=True),
    )
    if reader.flag("use_mtp"):
        modules = reader.optional_integer("num_mtp_modules") or 0
        draft.notes.append(
            f"The config names {modules} MTP modules; the published checkpoint stores none, none are counted."
        )
    reader.understood("num_mtp_modules", "mtp_transformer_layers")
    draft.layers = [("full", "moe")] * count
    draft.names = ModuleNames(moe="block_sparse_moe", expert_parts=("w1", "w2", "w3"))
    return draft


def glm4_moe(reader: ConfigReader) -> Draft:
    """GLM-4.5/4.6: biased q, k, v, dense first layers, aux-loss-free routing, one MTP block."""
    draft = start(reader)
    count = depth(reader)
    norm = "per_head" if reader.flag("use_qk_norm") else "none"
    draft.attentions["full"] = gqa(reader, qkv_bias=reader.flag("attention_bias"), qk_norm=norm)
    dense = reader.integer("first_k_dense_replace", minimum=0)
    width = reader.integer("moe_intermediate_size")
    draft.feed_forwards["dense"] = DenseFeedForward(intermediate_size=reader.integer("intermediate_size"))
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("n_routed_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        shared_intermediate_size=width * (reader.optional_integer("n_shared_experts") or 0),
        router_correction_bias=True,
        groups=reader.integer("n_group"),
        groups_per_token=reader.integer("topk_group"),
    )
    draft.layers = [("full", "dense" if i < dense else "moe") for i in range(count)]
    if not dense:
        del draft.feed_forwards["dense"]
    blocks = reader.optional_integer("num_nextn_predict_layers") or 0
    if blocks:
        draft.mtp = Mtp(blocks=blocks, attention="full", feed_forward="moe")
        draft.notes.append("Whether the MTP block repeats embedding and head in the checkpoint is not in the config.")
    return draft
