"""Reads a config.json and remembers which keys were understood, so that the rest can be refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import UnsupportedArchitectureError

MAX_INTEGER = 2**31 - 1
"""No size, count or length in a config is larger; beyond it a product of two would stop fitting array integers."""

_STRUCTURAL = re.compile(
    r"(num_|^n_|_n_|dim|size|rank|head|layer|expert|window|chunk|attn|attention|ssm|mamba|conv|lora|quant|sparse"
    r"|moe|mlp|ffn|bias|norm|mtp|nextn|share|kv|depth|width|cross|memory|compress|engram|altup|laurel|ngram|index|topk|cache|loop|recur|hyper|latent|delta|encoder)"
)
"""Names that would change parameters, FLOPs or bytes whatever their value."""

_HARMLESS_TEXT = """
add_cross_attention architectures attention_multiplier attn_dropout_prob attn_implementation attn_logit_softcapping
attn_pdrop attn_scale attn_temperature_tuning auto_map aux_loss_alpha bad_words_ids cache_implementation
chunk_size_feed_forward cross_attention_hidden_size diversity_penalty do_sample dropout_rng early_stopping
emb_dropout_prob embd_pdrop embedding_multiplier encoder_no_repeat_ngram_size ep_size eps final_logit_softcapping
finetuning_task flash_attention floor_scale for_llm_class hidden_act hidden_activation id2label ignore_index
image_grid_pinpoints image_seq_length initial_context_length initializer_range is_decoder is_encoder_decoder
kv_cache_dtype label2id layer_norm_epsilon layernorm_epsilon length_penalty logits_scaling max_length max_seq_len
max_sequence_length min_length mm_tokens_per_image model_max_length moe_router_enable_expert_parallel n_ctx
n_positions no_repeat_ngram_size norm_topk_prob num_beam_groups num_beams num_labels num_logits_to_keep
num_return_sequences onnx_safe original_max_position_embeddings output_attentions output_hidden_states
output_router_logits output_scores partial_rotary_factor prefix pretraining_tp projector_hidden_act pruned_heads
query_pre_attn_scalar remove_invalid_values repetition_penalty resid_pdrop residual_multiplier return_dict
rope_interleaved rope_local_base_freq rope_parameters rope_scaling rope_theta rotary_dim rotary_emb_base rotary_pct
routed_scaling_factor router_jitter_noise scale_attn_weights scoring_func seq_aux seq_length softmax_in_fp32
swiglu_limit task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torchscript typical_p use_bfloat16 use_cache use_cache_kernel use_cache_quantization use_dynamic_ntk
use_flash_attention use_flash_attention_2 use_flash_attn use_logn_attn use_unified_vision_chunk
vision_feature_select_strategy
"""
_HARMLESS = frozenset(_HARMLESS_TEXT.split())


def _may_be_structural(name: str, value: object) -> bool:
    """Counts, lists and mappings always may; flags, text and fractions by their name; what is not set never."""
    if value in (None, False, 0, "", [], {}):
        return False
    if isinstance(value, list | dict) or (isinstance(value, int) and not isinstance(value, bool) and value > 1):
        return True
    return _STRUCTURAL.search(name) is not None


class ConfigReader:
    """One mapping of a config.json (the whole, or its text_config) with per-type defaults filled in.

    Every accessor marks its key as understood; :meth:`refuse_leftovers` refuses what is left when it looks
    structural and is set. Values of the wrong kind raise UnsupportedArchitectureError with the key.
    """

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> None:
        self._config = config
        self._defaults = defaults
        self._prefix = prefix
        self._read: set[str] = set()

    def key(self, name: str) -> str:
        """The dotted key as it stands in the file."""
        return f"{self._prefix}{name}"

    def has(self, name: str) -> bool:
        return self._config.get(name) is not None

    def raw(self, name: str) -> Any:
        """The value, or the default of this model type, or None."""
        self._read.add(name)
        value = self._config.get(name)
        return self._defaults.get(name) if value is None else value

    def integer(self, *names: str, minimum: int = 1) -> int:
        """The first of ``names`` that is set; at least ``minimum``."""
        value = self.optional_integer(*names)
        if value is None:
            raise UnsupportedArchitectureError([self.key(names[0])], "this key is required and missing")
        if value < minimum:
            raise UnsupportedArchitectureError([self.key(names[0])], f"must be at least {minimum}, not {value}")
        return value

    def optional_integer(self, *names: str) -> int | None:
        values = {name: self.raw(name) for name in names}
        for name, value in values.items():
            if value is None:
                continue
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            if isinstance(value, bool) or not whole or not 0 <= value <= MAX_INTEGER:
                why = f"must be a whole number from 0 to {MAX_INTEGER}, not {value!r}"
                raise UnsupportedArchitectureError([self.key(name)], why)
            return int(value)
        return None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnsupportedArchitectureError([self.key(name)], f"must be true or false, not {value!r}")
        return value

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise UnsupportedArchitectureError([self.key(name)], f"must be text, not {value!r}")
        return value

    def items(self, name: str) -> list[Any]:
        value = self.raw(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise UnsupportedArchitectureError([self.key(name)], f"must be a list, not {value!r}")
        return list(value)

    def integers(self, name: str) -> list[int]:
        """A list of whole numbers (flags count as 0 and 1); empty where it is not set."""
        values = self.items(name)
        if not all(isinstance(v, int) for v in values):
            raise UnsupportedArchitectureError([self.key(name)], f"must be a list of whole numbers, not {values!r}")
        return [int(v) for v in values]

    def require(self, name: str, allowed: Iterable[object], why: str) -> None:
        """Refuses a value of ``name`` outside ``allowed`` (None, a missing key, always passes)."""
        value = self.raw(name)
        if value is not None and value not in tuple(allowed):
            raise UnsupportedArchitectureError([self.key(name)], f"value {value!r} is not understood: {why}")

    def understood(self, *names: str) -> None:
        """Marks keys that do not change the arithmetic of this architecture."""
        self._read.update(names)

    def refuse_leftovers(self) -> None:
        """Raises UnsupportedArchitectureError for unread keys that are set and may change the arithmetic."""
        bad = [
            self.key(name)
            for name, value in self._config.items()
            if name not in self._read
            and name not in _HARMLESS
            and not name.startswith("_")
            and not name.endswith(("_token_id", "_token_index", "_dropout", "_eps", "_loss_coef", "_version"))
            and _may_be_structural(name, value)
        ]
        if bad:
            raise UnsupportedArchitectureError(
                bad, "these keys may change parameters or memory and are not understood for this architecture"
            )
