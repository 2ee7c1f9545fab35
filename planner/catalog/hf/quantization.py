"""quantization_config to a storage format per tensor class, honouring the modules left in high precision."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.catalog.hf.draft import Draft, ModuleNames
from planner.catalog.model_spec import (
    DenseFeedForward,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    MoeFeedForward,
)
from planner.errors import UnsupportedArchitectureError

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", None: "bf16"}
_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "transformer.", "")
_MIXED_TOLERANCE = 0.05
"""A class counts as quantised (or not) when the modules that say otherwise hold at most this share of its weights:
more would make its bytes wrong, less is a corner (a gate, the first layer of a hundred)."""
_CLASSES = ("attention", "indexer", "dense_mlp", "shared_experts", "routed_experts")


@dataclass(frozen=True)
class Scheme:
    """``weights``: format of quantised linears; ``kv``: cache format the checkpoint asks for."""

    weights: str
    excluded: Callable[[str], bool]
    only: tuple[str, ...] = _CLASSES
    kv: str | None = None
    vision: bool = False


def dtype_format(dtype: object) -> str:
    """bf16, fp16 or fp32 of a torch dtype name (missing: bf16, what every engine's auto gives)."""
    name = dtype.removeprefix("torch.") if isinstance(dtype, str) else None
    if name not in _DTYPES or not isinstance(dtype, str | None):
        raise UnsupportedArchitectureError(["torch_dtype"], f"dtype {dtype!r} is not understood")
    return _DTYPES[name]


def class_formats(draft: Draft, dtype: object, quantization: Mapping[str, Any] | None) -> dict[str, str]:
    """Format by tensor class with the key ``default``; classes equal to the default are left out.

    Router, norms, biases and embeddings keep the default: engines load them so whatever the config says.
    """
    formats = {"default": dtype_format(dtype)}
    if not quantization:
        return formats
    try:
        scheme = _scheme(quantization)
    except (TypeError, AttributeError, ValueError, re.error):
        # Schemes are read key by key as their writers nest them; a part of another type is not understood either.
        raise UnsupportedArchitectureError(["quantization_config"], "its structure is not understood") from None
    for tensor_class, modules in _modules(draft).items():
        if tensor_class not in scheme.only:
            continue
        total = sum(modules.values())
        kept = sum(weight for name, weight in modules.items() if _left_out(scheme, name))
        if kept <= _MIXED_TOLERANCE * total:
            formats[tensor_class] = scheme.weights
            if kept:
                draft.notes.append(
                    f"{100 * kept / total:.1f} % of {tensor_class} weights stay in {formats['default']} (config)."
                )
        elif kept < (1 - _MIXED_TOLERANCE) * total:
            raise UnsupportedArchitectureError(
                ["quantization_config"],
                f"{tensor_class}: {100 * kept / total:.0f} % of the weights are left out; formats hold for a whole "
                "class here",
            )
    if scheme.vision:
        formats["vision"] = scheme.weights
    if scheme.kv:
        formats["kv"] = scheme.kv
    return formats


def _left_out(scheme: Scheme, name: str) -> bool:
    return any(scheme.excluded(prefix + name) for prefix in _PREFIXES)


def _scheme(q: Mapping[str, Any]) -> Scheme:
    method = q.get("quant_method")
    handlers: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
        "fp8": _fp8,
        "fbgemm_fp8": lambda c: Scheme("fp8_channel", _listed(c.get("modules_to_not_convert"))),
        "mxfp4": lambda c: Scheme("mxfp4", _listed(c.get("modules_to_not_convert")), only=("routed_experts",)),
        "gptq": _integer_only,
        "awq": _integer_only,
        "compressed-tensors": _compressed_tensors,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
    }
    if method not in handlers:
        raise UnsupportedArchitectureError(
            ["quantization_config.quant_method"],
            f"{method!r} is not understood; known: {', '.join(sorted(handlers))}",
        )
    return handlers[method](q)


def _refuse(keys: list[str], why: str) -> UnsupportedArchitectureError:
    return UnsupportedArchitectureError([f"quantization_config.{key}" for key in keys], why)


def _fp8(q: Mapping[str, Any]) -> Scheme:
    if str(q.get("fmt", "e4m3")).removeprefix("float8_") not in ("e4m3", "e4m3fn"):
        raise _refuse(["fmt"], f"{q.get('fmt')!r} is not understood")
    block = q.get("weight_block_size")
    if block is not None and list(block) != [128, 128]:
        raise _refuse(["weight_block_size"], f"{block} is not understood; known: [128, 128]")
    ignored = [*(q.get("modules_to_not_convert") or []), *(q.get("ignored_layers") or [])]
    return Scheme("fp8_block" if block else "fp8_tensor", _listed(ignored))


def _integer_only(q: Mapping[str, Any]) -> Scheme:
    bits, group = q.get("bits", q.get("w_bit")), q.get("group_size", q.get("q_group_size"))
    if q.get("lm_head") or q.get("dynamic"):
        raise _refuse([k for k in ("lm_head", "dynamic") if q.get(k)], "a rule by module is not understood")
    return Scheme(_integer_group(bits, group, ["bits", "group_size"]), _listed(q.get("modules_to_not_convert")))


def _integer_group(bits: object, group: object, keys: list[str]) -> str:
    if bits != 4 or group not in (32, 64, 128):
        raise _refuse(keys, f"{bits} bits in groups of {group} is not understood; known: 4 bits, groups of 32, 64, 128")
    return f"int4_g{group}"


def _compressed_tensors(q: Mapping[str, Any]) -> Scheme:
    groups = q.get("config_groups") or {}
    if len(groups) != 1:
        raise _refuse(["config_groups"], f"{len(groups)} groups; one is understood")
    group = next(iter(groups.values()))
    if list(group.get("targets") or []) != ["Linear"]:
        raise _refuse(["config_groups.targets"], f"{group.get('targets')} is not understood; known: [Linear]")
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    ignore = list(q.get("ignore") or [])
    excluded = _listed(ignore)
    vision = not any(word in str(item) for item in ignore for word in ("vision", "visual", "multi_modal"))
    kv = _kv(q.get("kv_cache_scheme"))
    return Scheme(_tensors_format(weights, inputs), excluded, kv=kv, vision=vision)


def _tensors_format(weights: Mapping[str, Any], inputs: Mapping[str, Any] | None) -> str:
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), weights.get("strategy")
    size = weights.get("group_size")
    same_inputs = inputs is not None and (inputs.get("num_bits"), inputs.get("type")) == (bits, kind)
    if (bits, kind) == (8, "float") and same_inputs:
        if strategy == "block" and list(weights.get("block_structure") or []) == [128, 128]:
            return "fp8_block"
        if strategy in ("channel", "tensor"):
            return f"fp8_{strategy}"
    if (bits, kind, strategy) == (8, "int", "channel") and same_inputs:
        return "int8_channel"
    if (bits, kind) == (4, "int") and inputs is None and strategy == "group":
        return _integer_group(bits, size, ["config_groups.weights.group_size"])
    if (bits, kind, size) == (4, "float", 16) and same_inputs:
        return "nvfp4"
    raise _refuse(
        ["config_groups.weights", "config_groups.input_activations"],
        f"{bits}-bit {kind} weights by {strategy} {size or ''} with inputs {inputs and inputs.get('num_bits')} "
        "are not understood",
    )


def _modelopt(q: Mapping[str, Any]) -> Scheme:
    inner = q.get("quantization") or q
    algorithm = inner.get("quant_algo")
    formats = {"FP8": "fp8_tensor", "NVFP4": "nvfp4", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_channel"}
    if algorithm not in formats:
        raise _refuse(["quant_algo"], f"{algorithm!r} is not understood; known: {', '.join(formats)}")
    if formats[algorithm] == "nvfp4" and inner.get("group_size", 16) != 16:
        raise _refuse(["group_size"], "NVFP4 has groups of 16")
    ignored = [*(inner.get("exclude_modules") or []), *(inner.get("ignore") or [])]
    kv = inner.get("kv_cache_quant_algo")
    if kv not in (None, "FP8"):
        raise _refuse(["kv_cache_quant_algo"], f"{kv!r} is not understood; known: FP8")
    return Scheme(formats[algorithm], _listed(ignored), kv="fp8" if kv else _kv(inner.get("kv_cache_scheme")))


def _kv(scheme: Mapping[str, Any] | None) -> str | None:
    if not scheme:
        return None
    if (scheme.get("num_bits"), scheme.get("type")) != (8, "float"):
        raise _refuse(["kv_cache_scheme"], f"{dict(scheme)} is not understood; known: 8-bit float")
    return "fp8"


def _listed(patterns: object) -> Callable[[str], bool]:
    """Whether a module is on an ignore list of names, path parts, globs or ``re:`` patterns."""
    expressions = []
    for pattern in patterns if isinstance(patterns, list) else []:
        text = str(pattern)
        if text.startswith("re:"):
            expressions.append(f"(?:{text[3:]})")
        else:
            part = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
            expressions.append(rf"(?:(?:.*\.)?{part}(?:\..*)?$)")
    if not expressions:
        return lambda name: False
    compiled = re.compile("|".join(expressions))
    return lambda name: compiled.match(name) is not None


def _modules(draft: Draft) -> dict[str, dict[str, int]]:
    """Module name (below ``model.``) to weights, by tensor class: enough names for every ignore list to show."""
    names = draft.names
    found: dict[str, dict[str, int]] = {tensor_class: {} for tensor_class in _CLASSES}
    for index, (attention_key, feed_forward_key) in enumerate(draft.layers):
        base = f"layers.{index}"
        attention, feed_forward = draft.attentions[attention_key], draft.feed_forwards[feed_forward_key]
        if isinstance(attention, LinearAttention):
            sizes = _linear_sizes(attention, names.linear)
            found["attention"] |= {f"{base}.linear_attn.{n}": w for n, w in zip(names.linear, sizes, strict=True)}
        elif isinstance(attention, GqaAttention):
            found["attention"] |= _gqa_modules(attention, f"{base}.{names.attention}", names)
        else:
            found["attention"] |= _mla_modules(attention, f"{base}.self_attn", draft.hidden_size)
            if attention.indexer:
                found["indexer"] |= {f"{base}.self_attn.indexer.{n}": 1 for n in ("wq_b", "wk")}
        if isinstance(feed_forward, DenseFeedForward):
            found["dense_mlp"] |= {f"{base}.{names.mlp}.{n}": 1 for n in names.mlp_parts}
        elif isinstance(feed_forward, MoeFeedForward):
            found["routed_experts"] |= {f"{base}.{names.moe}.experts.0.{n}": 1 for n in names.expert_parts}
            if feed_forward.shared_intermediate_size:
                parts = ("gate_proj", "up_proj", "down_proj")
                found["shared_experts"] |= {f"{base}.{names.moe}.{names.shared}.{n}": 1 for n in parts}
    return {tensor_class: modules for tensor_class, modules in found.items() if modules}


def _gqa_modules(attention: GqaAttention, base: str, names: ModuleNames) -> dict[str, int]:
    rows = dict.fromkeys(names.qkv, attention.kv_heads) | {
        names.qkv[0]: attention.heads,
        names.out: attention.heads,
    }
    return {f"{base}.{n}": weight for n, weight in rows.items()}


def _mla_modules(attention: MlaAttention, base: str, hidden: int) -> dict[str, int]:
    heads, q_rank = attention.heads, attention.q_lora_rank
    qk = heads * (attention.qk_nope_head_dim + attention.qk_rope_head_dim)
    modules = {
        "kv_a_proj_with_mqa": hidden * (attention.kv_lora_rank + attention.qk_rope_head_dim),
        "kv_b_proj": attention.kv_lora_rank * heads * (attention.qk_nope_head_dim + attention.v_head_dim),
        "o_proj": hidden * heads * attention.v_head_dim,
    }
    modules |= {"q_a_proj": hidden * q_rank, "q_b_proj": q_rank * qk} if q_rank else {"q_proj": hidden * qk}
    return {f"{base}.{n}": weight for n, weight in modules.items()}


def _linear_sizes(attention: LinearAttention, names: tuple[str, ...]) -> list[int]:
    """Rows of each projection: enough to weigh them against each other."""
    key = attention.key_heads * attention.key_head_dim
    value = attention.value_heads * attention.value_head_dim
    rows = {
        "in_proj_qkvz": 2 * key + 2 * value,
        "in_proj_qkv": 2 * key + value,
        "in_proj_z": value,
        "in_proj_ba": 2 * attention.value_heads,
        "in_proj_b": attention.value_heads,
        "in_proj_a": attention.value_heads,
        "out_proj": value,
    }
    return [rows[name] for name in names]
