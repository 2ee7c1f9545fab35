"""Multi-head latent attention with experts: DeepSeek V2/V3/V3.2, Kimi-K2."""

from __future__ import annotations

from planner.catalog.hf.draft import Draft, ModuleNames
from planner.catalog.hf.parts import depth, start
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import DenseFeedForward, Indexer, MlaAttention, MoeFeedForward, Mtp

_NAMES_Q_LORA = ModuleNames(qkv=("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"))
_NAMES_Q = ModuleNames(qkv=("q_proj", "kv_a_proj_with_mqa", "kv_b_proj"))


def deepseek(reader: ConfigReader) -> Draft:
    """DeepSeek V2, V3 and Kimi-K2."""
    return _deepseek(reader, None)


def deepseek_v32(reader: ConfigReader) -> Draft:
    """DeepSeek V3.2: V3 with a sparse-attention indexer on every layer."""
    return _deepseek(
        reader,
        Indexer(
            heads=reader.integer("index_n_heads"),
            head_dim=reader.integer("index_head_dim"),
            topk_tokens=reader.integer("index_topk"),
        ),
    )


def _deepseek(reader: ConfigReader, indexer: Indexer | None) -> Draft:
    draft = start(reader)
    count = depth(reader)
    reader.require("attention_bias", [False], "biased MLA was never published")
    reader.require("topk_method", ["greedy", "group_limited_greedy", "noaux_tc"], "routing method")
    heads = reader.integer("num_attention_heads")
    reader.require("num_key_value_heads", [heads], "MLA has as many KV heads as heads")
    reader.understood("head_dim", "qk_head_dim")  # written by newer transformers, derived from the MLA keys
    q_lora_rank = reader.optional_integer("q_lora_rank")
    draft.attentions["mla"] = MlaAttention(
        heads=heads,
        q_lora_rank=q_lora_rank,
        kv_lora_rank=reader.integer("kv_lora_rank"),
        qk_nope_head_dim=reader.integer("qk_nope_head_dim"),
        qk_rope_head_dim=reader.integer("qk_rope_head_dim"),
        v_head_dim=reader.integer("v_head_dim"),
        indexer=indexer,
    )
    draft.names = _NAMES_Q_LORA if q_lora_rank else _NAMES_Q
    dense_width = reader.integer("intermediate_size")
    width = reader.integer("moe_intermediate_size")
    draft.feed_forwards["dense"] = DenseFeedForward(intermediate_size=dense_width)
    draft.feed_forwards["moe"] = MoeFeedForward(
        experts=reader.integer("n_routed_experts"),
        experts_per_token=reader.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        shared_intermediate_size=width * (reader.optional_integer("n_shared_experts") or 0),
        router_correction_bias=reader.text("topk_method") == "noaux_tc",
        groups=reader.optional_integer("n_group") or 1,
        groups_per_token=reader.optional_integer("topk_group") or 1,
    )
    first, every = reader.integer("first_k_dense_replace", minimum=0), reader.integer("moe_layer_freq")
    moe = [i >= first and i % every == 0 for i in range(count)]
    draft.layers = [("mla", "moe" if m else "dense") for m in moe]
    if all(moe):
        del draft.feed_forwards["dense"]
    blocks = reader.optional_integer("num_nextn_predict_layers") or 0
    if blocks:
        draft.mtp = Mtp(blocks=blocks, attention="mla", feed_forward="moe", own_embedding=True)
    return draft
