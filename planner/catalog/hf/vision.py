"""Parameters of vision towers and projectors, counted as a whole from their configs.

Each function counts the tensors of the transformers module it names; the shipped specifications check them
against exact checkpoint counts (Gemma 3, Llama 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.catalog.hf.reader import ConfigReader
from planner.catalog.model_spec import Vision
from planner.errors import UnsupportedArchitectureError

_CHANNELS = 3


def _layer_norm(width: int) -> int:
    return 2 * width


def _linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _encoder_layer(width: int, inner: int) -> int:
    """Biased q, k, v, o; biased fc1, fc2; two LayerNorms."""
    return 4 * _linear(width, width) + _linear(width, inner) + _linear(inner, width) + 2 * _layer_norm(width)


def _siglip_tower(vision: ConfigReader) -> int:
    """SiglipVisionModel without pooling head."""
    vision.require("vision_use_head", [False], "a pooling head is not understood")
    vision.understood("num_attention_heads", "num_channels", "model_type", "num_image_tokens")
    vision.understood("projection_dim", "vocab_size")  # of the paired text tower, absent here
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size")
    positions = (vision.integer("image_size") // patch) ** 2
    embedding = _linear(patch * patch * _CHANNELS, width) + positions * width
    layers = vision.integer("num_hidden_layers") * _encoder_layer(width, inner)
    return embedding + layers + _layer_norm(width)


def _gemma3(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """Gemma3ForConditionalGeneration: SigLIP, projection without bias, soft-embedding norm."""
    width = vision.integer("hidden_size")
    return _siglip_tower(vision) + width * hidden + width


def _llava_next(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """LlavaNextForConditionalGeneration on SigLIP: two biased linears and the newline embedding."""
    features = top.raw("vision_feature_layer")
    width = vision.integer("hidden_size") * (len(features) if isinstance(features, list) else 1)
    bias = top.flag("multimodal_projector_bias", default=True)
    top.understood("use_image_newline_parameter")
    return _siglip_tower(vision) + _linear(width, hidden, bias) + _linear(hidden, hidden, bias) + hidden


def _llama4(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """Llama4VisionModel with pixel-shuffle adapter, and the projector (no biases in either)."""
    vision.require("multi_modal_projector_bias", [False], "a biased projector is not understood")
    vision.understood(
        "num_attention_heads", "num_channels", "pixel_shuffle_ratio", "vision_feature_layer", "model_type"
    )
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size")
    positions = (vision.integer("image_size") // patch) ** 2 + 1
    embedding = _linear(patch * patch * _CHANNELS, width, bias=False) + width + positions * width
    layers = vision.integer("num_hidden_layers") * _encoder_layer(width, inner)
    adapter_in, adapter_out = vision.integer("projector_input_dim"), vision.integer("projector_output_dim")
    adapter = inner * adapter_in + adapter_in * adapter_out
    return embedding + layers + 2 * _layer_norm(width) + adapter + vision.integer("vision_output_dim") * hidden


def _mistral3(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """Mistral3ForConditionalGeneration: Pixtral (RMSNorm, gated MLP, no biases), patch merger, two linears."""
    vision.understood("num_attention_heads", "num_channels", "image_size", "head_dim", "model_type")
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch, merge = vision.integer("patch_size"), top.integer("spatial_merge_size")
    bias = top.flag("multimodal_projector_bias")
    top.understood("vision_feature_layer")
    layer = 4 * width * width + 3 * width * inner + 2 * width
    tower = patch * patch * _CHANNELS * width + width + vision.integer("num_hidden_layers") * layer
    projector = width + merge * merge * width * width + _linear(width, hidden, bias) + _linear(hidden, hidden, bias)
    return tower + projector


def _qwen3_5(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """Qwen3.5 vision model: 3-D patch embedding, learned positions, merger of two linears."""
    if vision.items("deepstack_visual_indexes"):
        raise UnsupportedArchitectureError(
            [vision.key("deepstack_visual_indexes")], "deep-stack mergers are not counted"
        )
    vision.understood("num_heads", "model_type")
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size") ** 2 * vision.integer("temporal_patch_size") * vision.integer("in_channels")
    merged = width * vision.integer("spatial_merge_size") ** 2
    tower = _linear(patch, width) + vision.integer("num_position_embeddings") * width
    tower += vision.integer("depth") * _encoder_layer(width, inner)
    return tower + _layer_norm(width) + _linear(merged, merged) + _linear(merged, vision.integer("out_hidden_size"))


def _kimi_vl(vision: ConfigReader, top: ConfigReader, hidden: int) -> int:
    """MoonViT with its projector (Kimi-VL)."""
    vision.understood("num_attention_heads", "model_type")
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size")
    rows, cols = vision.integer("init_pos_emb_height"), vision.integer("init_pos_emb_width")
    vision.require("merge_kernel_size", [[2, 2]], "the projector's width is known for 2 x 2 merging")
    merged = width * 2 * 2
    tower = _linear(patch * patch * _CHANNELS, width) + rows * cols * width + _layer_norm(width)
    tower += vision.integer("num_hidden_layers") * _encoder_layer(width, inner)
    return tower + _layer_norm(width) + _linear(merged, merged) + _linear(merged, hidden)


_TOWERS: dict[str, tuple[Callable[[ConfigReader, ConfigReader, int], int], tuple[str, ...]]] = {
    "gemma3": (_gemma3, ("siglip_vision_model",)),
    "llava_next": (_llava_next, ("siglip_vision_model",)),
    "llama4": (_llama4, ("llama4_vision_model",)),
    "mistral3": (_mistral3, ("pixtral",)),
    "qwen3_5": (_qwen3_5, ("qwen3_5", "qwen3_5_vision")),
    "qwen3_5_moe": (_qwen3_5, ("qwen3_5_moe", "qwen3_5_moe_vision")),
    "kimi_vl": (_kimi_vl, ("moonvit",)),
}


def count_vision(
    wrapper: str, vision_config: dict[str, Any], top: ConfigReader, hidden: int, given: dict[str, Any]
) -> Vision:
    """The tower of a multimodal config.

    ``given`` holds published sizes of towers whose tensors are not known (key: wrapper model_type). A tower that is
    neither computable nor given raises UnsupportedArchitectureError: its memory is part of the weights.
    """
    if wrapper in given:
        entry = given[wrapper]
        return Vision(parameters=int(entry["parameters"]), source=str(entry["source"]))
    reader = ConfigReader(vision_config, {}, "vision_config.")
    kind = reader.text("model_type")
    if wrapper not in _TOWERS or kind not in (*_TOWERS[wrapper][1], None):
        raise UnsupportedArchitectureError(
            ["model_type", "vision_config.model_type"],
            f"vision tower {kind!r} of {wrapper!r} is not understood",
        )
    parameters = _TOWERS[wrapper][0](reader, top, hidden)
    reader.refuse_leftovers()
    return Vision(parameters=parameters, source=f"counted from vision_config ({kind or wrapper})")
