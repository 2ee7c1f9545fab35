"""Hybrids of gated delta-rule linear attention and full attention: Qwen3-Next, Qwen3.5."""

from __future__ import annotations

from planner.catalog.hf.draft import Draft, ModuleNames
from planner.catalog.hf.moe import add_qwen_feed_forwards, qwen_experts
from planner.catalog.hf.parts import depth, gqa, layer_types, start
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import DenseFeedForward, LinearAttention, Mtp
from planner.errors import UnsupportedArchitectureError

_STATE_FORMATS = {None: "fp32", "float32": "fp32", "bfloat16": "bf16"}


def qwen3_next(reader: ConfigReader) -> Draft:
    """Qwen3-Next: the checkpoint stores one MTP block that its config does not mention."""
    draft = start(reader)
    keys = _attentions(reader, draft, output_gate=True)
    feed_forwards = add_qwen_feed_forwards(reader, draft, qwen_experts(reader, shared=True))
    draft.layers = list(zip(keys, feed_forwards, strict=True))
    draft.mtp = Mtp(blocks=1, attention="full", feed_forward="moe")
    draft.names = ModuleNames(shared="shared_expert")
    draft.notes.append("One MTP block is counted: the published checkpoints store it though the config is silent.")
    return draft


def qwen3_5(reader: ConfigReader) -> Draft:
    """Qwen3.5, dense text model."""
    draft = start(reader)
    keys = _attentions(reader, draft, output_gate=reader.flag("attn_output_gate", default=True))
    draft.feed_forwards["dense"] = DenseFeedForward(intermediate_size=reader.integer("intermediate_size"))
    draft.layers = [(key, "dense") for key in keys]
    _qwen3_5_mtp(reader, draft, "dense")
    return draft


def qwen3_5_moe(reader: ConfigReader) -> Draft:
    """Qwen3.5, mixture-of-experts text model."""
    draft = start(reader)
    keys = _attentions(reader, draft, output_gate=reader.flag("attn_output_gate", default=True))
    feed_forwards = add_qwen_feed_forwards(reader, draft, qwen_experts(reader, shared=True))
    draft.layers = list(zip(keys, feed_forwards, strict=True))
    _qwen3_5_mtp(reader, draft, "moe")
    return draft


def _qwen3_5_mtp(reader: ConfigReader, draft: Draft, feed_forward: str) -> None:
    own = reader.flag("mtp_use_dedicated_embeddings")
    blocks = reader.optional_integer("mtp_num_hidden_layers") or 0
    if blocks:
        draft.mtp = Mtp(blocks=blocks, attention="full", feed_forward=feed_forward, own_embedding=own)
    draft.names = ModuleNames(
        shared="shared_expert", linear=("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
    )


def _attentions(reader: ConfigReader, draft: Draft, *, output_gate: bool) -> list[str]:
    count = depth(reader)
    bias = reader.flag("attention_bias")
    interval = reader.integer("full_attention_interval")
    types = layer_types(reader, ("linear_attention", "full_attention"))
    if types is None:
        types = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(count)]
    state = reader.text("mamba_ssm_dtype")
    if state not in _STATE_FORMATS:
        raise UnsupportedArchitectureError([reader.key("mamba_ssm_dtype")], f"state format {state!r} is not understood")
    draft.attentions["linear"] = LinearAttention.model_validate(
        {
            "key_heads": reader.integer("linear_num_key_heads"),
            "value_heads": reader.integer("linear_num_value_heads"),
            "key_head_dim": reader.integer("linear_key_head_dim"),
            "value_head_dim": reader.integer("linear_value_head_dim"),
            "conv_kernel": reader.integer("linear_conv_kernel_dim"),
            "state_format": _STATE_FORMATS[state],
        }
    )
    draft.attentions["full"] = gqa(reader, qkv_bias=bias, o_bias=bias, qk_norm="per_head", output_gate=output_gate)
    return ["linear" if t == "linear_attention" else "full" for t in types]
