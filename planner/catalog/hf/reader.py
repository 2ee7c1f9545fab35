"""Reads a config.json and remembers which keys were understood, so that the rest can be refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import UnsupportedArchitectureError

_STRUCTURAL = re.compile(
    r"(num_|^n_|_n_|dim|size|rank|head|layer|expert|window|chunk|attn|attention|ssm|mamba|conv|lora|quant|sparse"
    r"|moe|mlp|ffn|bias|norm|mtp|nextn|share|kv|depth|width|cross|memory|compress|engram|altup|laurel|ngram)"
)
"""Names that would change parameters, FLOPs or bytes if they meant something."""

_HARMLESS_TEXT = """
_attn_implementation _attn_implementation_autoset _name_or_path add_cross_attention architectures
attention_dropout attention_multiplier attn_dropout_prob attn_implementation attn_logit_softcapping
attn_pdrop attn_scale attn_temperature_tuning auto_map aux_loss_alpha bad_words_ids boi_token_index
bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout cross_attention_hidden_size
decoder_start_token_id diversity_penalty do_sample dropout_rng early_stopping emb_dropout_prob embd_pdrop
embedding_multiplier encoder_no_repeat_ngram_size eoi_token_index eos_token_id ep_size eps
final_logit_softcapping finetuning_task floor_scale for_llm_class hidden_act hidden_activation
hidden_dropout id2label ignore_index image_grid_pinpoints image_seq_length image_token_id image_token_index
initial_context_length initializer_range is_decoder is_encoder_decoder kv_cache_dtype label2id
layer_norm_eps layer_norm_epsilon layernorm_epsilon length_penalty logits_scaling max_length
media_placeholder_token_id min_length mlp_dropout mm_tokens_per_image moe_router_enable_expert_parallel
no_repeat_ngram_size norm_eps norm_topk_prob num_beam_groups num_beams num_logits_to_keep
num_return_sequences onnx_safe original_max_position_embeddings output_attentions output_hidden_states
output_router_logits output_scores pad_token_id partial_rotary_factor prefix pretraining_tp
projector_hidden_act pruned_heads query_pre_attn_scalar remove_invalid_values repetition_penalty resid_pdrop
residual_multiplier return_dict rms_norm_eps rope_interleaved rope_local_base_freq rope_parameters
rope_scaling rope_theta rotary_dim rotary_emb_base rotary_pct routed_scaling_factor router_aux_loss_coef
router_jitter_noise router_z_loss_coef scale_attn_weights scoring_func sep_token_id seq_aux softmax_in_fp32
swiglu_limit task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torchscript transformers_version typical_p use_bfloat16 use_cache use_cache_kernel use_cache_quantization
use_dynamic_ntk use_flash_attn use_logn_attn use_unified_vision_chunk video_token_id
vision_feature_select_strategy
"""
_HARMLESS = frozenset(_HARMLESS_TEXT.split())


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

    def integer(self, *names: str) -> int:
        """The first of ``names`` that is set."""
        value = self.optional_integer(*names)
        if value is None:
            raise UnsupportedArchitectureError([self.key(names[0])], "this key is required and missing")
        return value

    def optional_integer(self, *names: str) -> int | None:
        values = {name: self.raw(name) for name in names}
        for name, value in values.items():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                raise UnsupportedArchitectureError([self.key(name)], f"must be a whole number, not {value!r}")
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
            and not name.endswith(("_token_id", "_token_index", "_dropout", "_eps", "_loss_coef", "_version"))
            and value not in (None, False, 0, "", [], {})
            and _STRUCTURAL.search(name)
        ]
        if bad:
            raise UnsupportedArchitectureError(
                bad, "these keys may change parameters or memory and are not understood for this architecture"
            )
