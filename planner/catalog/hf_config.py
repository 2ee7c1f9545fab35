"""A Hugging Face ``config.json`` as a model specification: no network, nothing guessed.

What is not understood is refused with the keys that caused it: unknown model types, layer kinds and quantisation
schemes, and unread keys that look as if they changed parameters or memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from planner.catalog.files import read_yaml
from planner.catalog.hf import deepseek, dense, linear, moe
from planner.catalog.hf.draft import Draft
from planner.catalog.hf.quantization import class_formats
from planner.catalog.hf.reader import ConfigReader
from planner.catalog.hf.vision import count_vision
from planner.catalog.model_spec import ModelSpec, MoeFeedForward, Vision
from planner.catalog.validation import check_mapping, validate
from planner.errors import UnsupportedArchitectureError

ARCHITECTURES: Mapping[str, Callable[[ConfigReader], Draft]] = {
    "llama": dense.llama,
    "granite": dense.llama,
    "mistral": dense.mistral,
    "qwen": dense.qwen1,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "phi": dense.phi2,
    "phi3": dense.phi3,
    "gemma": dense.gemma1,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3,
    "mixtral": moe.mixtral,
    "qwen2_moe": moe.qwen2_moe,
    "qwen3_moe": moe.qwen3_moe,
    "llama4_text": moe.llama4,
    "gpt_oss": moe.gpt_oss,
    "minimax_m2": moe.minimax_m2,
    "glm4_moe": moe.glm4_moe,
    "qwen3_next": linear.qwen3_next,
    "qwen3_5_text": linear.qwen3_5,
    "qwen3_5_moe_text": linear.qwen3_5_moe,
    "deepseek_v2": deepseek.deepseek,
    "deepseek_v3": deepseek.deepseek,
    "deepseek_v32": deepseek.deepseek_v32,
    "kimi_k2": deepseek.deepseek,
}
"""Text model types (``model_type``) and what reads them."""

WRAPPERS = ("gemma3", "llama4", "mistral3", "llava_next", "qwen3_5", "qwen3_5_moe", "kimi_vl", "kimi_k25")
"""Multimodal model types whose language model stands under ``text_config``."""


_AUTO_PARTS = {
    "Config": "config",
    "Tokenizer": "tokenizer",
    "Processor": "processor",
    "ImageProcessor": "processor",
    "VideoProcessor": "processor",
    "FeatureExtractor": "processor",
}
"""Transformers' auto classes that are no models; every other AutoModelFor... is one."""


def spec_from_hf_config(config: Mapping[str, Any], id: str | None = None) -> ModelSpec:
    """The specification of the model that ``config`` (a parsed config.json) describes.

    ``id`` names it; without one the name in the config (``_name_or_path``) or its model type is used. Raises
    UnsupportedArchitectureError with the keys that are not understood.
    """
    config = check_mapping(dict(config), "config.json")
    wrapper = config.get("model_type")
    text, prefix = dict(config), ""
    if wrapper in WRAPPERS:
        text, prefix = (
            dict(check_mapping(config.get("text_config"), "config.json: text_config")),
            "text_config.",
        )
    elif "text_config" in config:
        raise UnsupportedArchitectureError(
            ["model_type", "text_config"],
            f"multimodal model type {wrapper!r} is not understood; known: {', '.join(WRAPPERS)}",
        )
    model_type = str(text.get("model_type"))
    if model_type not in ARCHITECTURES:
        raise UnsupportedArchitectureError(
            [
                f"{prefix}model_type: {model_type}",
                *(f"architectures: {a}" for a in text.get("architectures") or []),
            ],
            f"this architecture is not understood; known model types: {', '.join(sorted(ARCHITECTURES))}",
        )
    defaults = _defaults()
    reader = ConfigReader(text, defaults[model_type], prefix)
    reader.understood("model_type", "vision_config", "torch_dtype", "dtype")
    draft = _draft(ARCHITECTURES[model_type], reader)
    quantization = _quantization(config, text, reader)
    tied = _tied(config, reader)
    reader.refuse_leftovers()
    vision = _vision(str(wrapper), config, draft, defaults["vision_given"]) if prefix else None
    dtype = next((c[k] for c in (text, config) for k in ("torch_dtype", "dtype") if c.get(k)), None)
    precision = class_formats(draft, dtype, quantization)
    if "quantization_config" not in config or vision is None:
        precision.pop("vision", None)  # a scheme inside text_config leaves the tower alone
    if dtype is None:
        draft.notes.append("The config names no dtype: bf16 taken for weights that are not quantised.")
    name = str(config.get("_name_or_path") or "") or None
    remote = _remote_code(config, text)
    return _assemble(draft, id, name, str(model_type), tied, vision, precision, remote)


def _draft(read: Callable[[ConfigReader], Draft], reader: ConfigReader) -> Draft:
    try:
        return read(reader)
    except ValidationError as error:  # a value that the specification's own schema refuses
        first = error.errors(include_url=False)[0]
        if not first["loc"] and error.title == MoeFeedForward.__name__:
            raise UnsupportedArchitectureError(
                [reader.key("num_experts_per_tok")], first["msg"].removeprefix("Value error, ")
            ) from None
        keys = [".".join(str(part) for part in first["loc"]) or error.title]
        raise UnsupportedArchitectureError(keys, f"{error.title}: {first['msg']}") from None


def _assemble(
    draft: Draft,
    id: str | None,
    name: str | None,
    family: str,
    tied: bool,
    vision: Vision | None,
    precision: dict[str, str],
    remote_code: dict[str, Any] | None,
) -> ModelSpec:
    groups, pattern = draft.groups()
    used_attentions = {group.attention for group in groups} | ({draft.mtp.attention} if draft.mtp else set())
    used_forwards = {group.feed_forward for group in groups} | ({draft.mtp.feed_forward} if draft.mtp else set())
    data = {
        "id": id or _slug(name or family),
        "name": (name or id or family).rsplit("/", 1)[-1],
        "hf_id": name if name and name.count("/") == 1 and not name.startswith((".", "/")) else None,
        "family": family,
        "hidden_size": draft.hidden_size,
        "vocab_size": draft.vocab_size,
        "max_context_tokens": draft.max_context_tokens,
        "tie_word_embeddings": tied,
        "attentions": {k: v for k, v in draft.attentions.items() if k in used_attentions},
        "feed_forwards": {k: v for k, v in draft.feed_forwards.items() if k in used_forwards},
        "layers": groups,
        "layer_pattern": pattern,
        "norm_bias": draft.norm_bias,
        "head_bias": draft.head_bias,
        "mtp": draft.mtp,
        "vision": vision,
        "precision": precision,
        "remote_code": remote_code,
        "notes": tuple(draft.notes),
    }
    return validate(ModelSpec, data, "config.json")


def _quantization(config: Mapping[str, Any], text: Mapping[str, Any], reader: ConfigReader) -> Mapping[str, Any] | None:
    reader.understood("quantization_config")
    found = text.get("quantization_config") or config.get("quantization_config")
    if found is not None and not isinstance(found, dict):
        raise UnsupportedArchitectureError(["quantization_config"], "must be a mapping")
    if any(c.get("compression_config") for c in (config, text)):
        raise UnsupportedArchitectureError(["compression_config"], "only quantization_config is understood")
    return found


def _remote_code(config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Any] | None:
    """What auto_map of the config loads from the checkpoint's own files.

    A tokenizer's auto_map may stand in tokenizer_config.json alone, which is not read: all that is known then is that
    the checkpoint has code of its own.
    """
    named = {kind for c in (config, text) for kind in check_mapping(c.get("auto_map") or {}, "config.json: auto_map")}
    parts = {_AUTO_PARTS.get(kind.removeprefix("Auto"), "model") for kind in named}
    return {"parts": sorted(parts), "source": "config.json auto_map"} if parts else None


def _tied(config: Mapping[str, Any], reader: ConfigReader) -> bool:
    if not reader.has("tie_word_embeddings") and isinstance(config.get("tie_word_embeddings"), bool):
        reader.understood("tie_word_embeddings")
        return bool(config["tie_word_embeddings"])
    return reader.flag("tie_word_embeddings")


def _vision(wrapper: str, config: Mapping[str, Any], draft: Draft, given: dict[str, Any]) -> Vision | None:
    top = ConfigReader(config, {})
    top.understood("text_config", "vision_config", "model_type", "torch_dtype", "dtype", "quantization_config")
    top.understood("tie_word_embeddings", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    top.understood("num_attention_heads", "num_key_value_heads")  # repeated from text_config by some exporters
    vision_config = config.get("vision_config")
    vision = None
    if vision_config:
        mapping = check_mapping(vision_config, "config.json: vision_config")
        vision = count_vision(wrapper, mapping, top, draft.hidden_size, given)
    top.refuse_leftovers()
    return vision


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-") or "model"


@cache
def _defaults() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name("hf") / "defaults.yaml")
