"""Hardware and models of a visitor's own: from a short form to the entries that the catalogue holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from planner.catalog import Catalog, ModelSpec
from planner.catalog.hf_config import ARCHITECTURES, WRAPPERS, spec_from_hf_config
from planner.catalog.validation import validate
from planner.errors import InputError, UnsupportedArchitectureError
from planner.ui import overlay, upload
from planner.ui.i18n import _
from planner.ui.overlay import Entries
from planner.ui.text import listed

PEAKS = ("bf16", "fp8", "int8", "fp4")
SHAPES = ("llama", "qwen3_moe", "deepseek_v3")
"""What the form for a model makes: dense, experts with grouped-query attention, experts with latent attention."""


def hardware(catalog: Catalog, values: Mapping[str, Any]) -> Entries:
    """An accelerator and a node of them, from the numbers of a form and a known part of the same generation.

    Keys of ``values``: id, base (accelerator id), memory_gb, usable_gib, bandwidth_gb_s, bf16, fp8, int8, fp4
    (TFLOP/s, dense), link_gb_s (unidirectional), domain, tdp_w, gpus, nics, nic_gbit_s; None is not known, or, of
    usable memory, the part of what is sold that the known part has. Raises InputError naming the field.
    """
    base = catalog.accelerator(values["base"])
    seen = {"status": "assumed", "source": "entered in this session", "date": f"{date.today():%Y-%m}"}
    name = str(values.get("id") or "").strip()
    _check_hardware(name, values)
    usable = values.get("usable_gib") or usable_gib(catalog, values["base"], float(values["memory_gb"]))
    accelerator: dict[str, Any] = {
        "id": name,
        "name": name,
        "vendor": base.vendor,
        "arch": base.arch,
        "tflops_dense": {**seen, **{p: values.get(p) for p in PEAKS}},
        "memory": {
            **seen,
            "type": base.memory.type,
            "gb_sold": values.get("memory_gb"),
            "bandwidth_gb_s": values.get("bandwidth_gb_s"),
            "gib_usable": usable,
            **({"usable_status": "assumed", "usable_source": seen["source"]} if usable else {}),
        },
        "scale_up": _group(seen, unidirectional_gb_s=values.get("link_gb_s"), domain_size=values.get("domain")),
        "pcie": base.pcie.model_dump(mode="json", exclude_none=True),
        "power_w": _group(seen, tdp=values.get("tdp_w")),
        "notes": [f"entered in this session; operator curves follow {base.id} ({base.arch})"],
    }
    node: dict[str, Any] = {
        "id": f"{name}-{values.get('gpus')}",
        "name": f"{name} x {values.get('gpus')}",
        "accelerator": name,
        "gpus": values.get("gpus"),
        "scale_up": _group(seen, domain=values.get("domain"), unidirectional_gb_s_per_gpu=values.get("link_gb_s")),
        "sources": [seen["source"]],
    }
    if values.get("nics") and values.get("nic_gbit_s"):
        node["nics"] = {**seen, "count": values["nics"], "gbit_s": values["nic_gbit_s"]}
    return overlay.added(overlay.added({}, "accelerator", accelerator), "node", node)


def _check_hardware(name: str, values: Mapping[str, Any]) -> None:
    """Raises InputError in the words of the form."""
    if not overlay.ID.fullmatch(name):
        raise InputError(_("Name for it"), name, _("small letters, digits, dots and dashes, at most 64"))
    needed = {
        "memory_gb": _("Memory capacity, GB"),
        "bandwidth_gb_s": _("Memory bandwidth, GB/s"),
        "bf16": _("bf16, TFLOP/s"),
    }
    for key, label in needed.items():
        if not values.get(key):
            raise InputError(label, None, _("a number is needed"))
    usable, sold = values.get("usable_gib"), values["memory_gb"]
    if usable and usable > sold:
        raise InputError(_("Usable capacity, GiB"), usable, _("at most what is sold ({n})").format(n=sold))
    domain, gpus = values.get("domain") or 1, values.get("gpus") or 1
    if domain > gpus:
        raise InputError(_("Fast domain, GPUs"), domain, _("at most the GPUs in a node ({n})").format(n=gpus))


def _group(seen: Mapping[str, str], **values: Any) -> dict[str, Any]:
    known = {k: v for k, v in values.items() if v is not None}
    return {**seen, **known} if known else {}


def defaults(catalog: Catalog, base: str) -> dict[str, Any]:
    """Values of the form that repeat a known part."""
    a = catalog.accelerator(base)
    return {
        "memory_gb": a.memory.gb_sold,
        "usable_gib": None,
        "bandwidth_gb_s": a.memory.bandwidth_gb_s,
        **{p: getattr(a.tflops_dense, p) for p in PEAKS},
        "link_gb_s": a.scale_up.unidirectional_gb_s,
        "domain": min(a.scale_up.domain_size or 1, 8),
        "tdp_w": a.power_w.tdp,
        "gpus": 8,
        "nics": 8,
        "nic_gbit_s": a.scale_out_nic.gbit_s_per_gpu or 400.0,
    }


def usable_gib(catalog: Catalog, base: str, memory_gb: float) -> float | None:
    """Usable memory of a part with ``memory_gb``, in the ratio of the known part; None where that is not known."""
    memory = catalog.accelerator(base).memory
    return memory_gb * memory.gib_usable / memory.gb_sold if memory.gib_usable and memory.gb_sold else None


def from_yaml(text: str, entries: Entries) -> tuple[Entries, ModelSpec | None]:
    """``entries`` with what a YAML text describes, or the model that it describes.

    One entry (an accelerator has tflops_dense, a node gpus, a model layers), or several under accelerator: and node:.
    Raises InputError naming the field.
    """
    where = _("the text")
    if not text.strip():
        raise InputError(where, "", _("paste the YAML of an accelerator, a node or a model first"))
    data = upload.mapping_from_text(text, where)
    if "layers" in data:
        return entries, validate(ModelSpec, data, where)
    if "tflops_dense" in data:
        return overlay.added(entries, "accelerator", data), None
    if "gpus" in data and "accelerator" in data and isinstance(data["accelerator"], str):
        return overlay.added(entries, "node", data), None
    if data and set(data) <= set(overlay.SCHEMAS):
        out = entries
        for kind, members in overlay.checked(data, where).items():
            for entry in members.values():
                out = overlay.added(out, kind, entry)
        return out, None
    raise InputError(
        where,
        ", ".join(list(data)[:6]),
        _("an accelerator has tflops_dense, a node has accelerator and gpus, a model has layers"),
    )


def model(values: Mapping[str, Any]) -> ModelSpec:
    """A model from the numbers of a form: the config.json that such a model would have, read as any other.

    Keys: id, shape (one of SHAPES), layers, hidden, heads, kv_heads, head_dim, width, vocab, context, and for experts
    experts, active, expert_width, shared, dense_layers; fp8 for 128 x 128 blocks. Raises InputError naming the key.
    """
    shape = values["shape"]
    config: dict[str, Any] = {
        "model_type": shape,
        "hidden_size": values["hidden"],
        "num_hidden_layers": values["layers"],
        "num_attention_heads": values["heads"],
        "vocab_size": values["vocab"],
        "max_position_embeddings": values["context"],
        "intermediate_size": values["width"],
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }
    if shape == "deepseek_v3":
        config |= {
            "num_key_value_heads": values["heads"],
            "q_lora_rank": values["q_rank"],
            "kv_lora_rank": values["kv_rank"],
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "n_routed_experts": values["experts"],
            "num_experts_per_tok": values["active"],
            "n_shared_experts": values["shared"],
            "moe_intermediate_size": values["expert_width"],
            "first_k_dense_replace": values["dense_layers"],
            "moe_layer_freq": 1,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "attention_bias": False,
            "num_nextn_predict_layers": 0,
        }
    else:
        config |= {"num_key_value_heads": values["kv_heads"], "head_dim": values["head_dim"]}
    if shape == "qwen3_moe":
        config |= {
            "num_experts": values["experts"],
            "num_experts_per_tok": values["active"],
            "moe_intermediate_size": values["expert_width"],
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    if values.get("fp8"):
        config["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        }
    return spec_from_hf_config(config, upload.identifier(str(values.get("id") or "")) or "my-model")


def field_names() -> dict[str, str]:
    """Key of a config.json -> what the form calls it."""
    return {
        "num_hidden_layers": _("Layers"),
        "hidden_size": _("Hidden size"),
        "num_attention_heads": _("Attention heads"),
        "num_key_value_heads": _("KV heads"),
        "head_dim": _("Head size"),
        "intermediate_size": _("Feed-forward width"),
        "num_experts": _("Experts"),
        "n_routed_experts": _("Experts"),
        "num_experts_per_tok": _("Experts per token"),
        "moe_intermediate_size": _("Expert width"),
        "vocab_size": _("Vocabulary"),
        "max_position_embeddings": _("Longest context"),
    }


def refusal(error: UnsupportedArchitectureError) -> list[str]:
    """What is understood, as sentences, where a config.json describes something that is not."""
    if "not understood" not in error.allowed:
        return []
    return [
        _(
            "Every key that could change parameters or memory has to be understood; none is passed over, "
            "because the plan would then be of another model."
        ),
        _("Understood model types: {types}.").format(types=listed(sorted(ARCHITECTURES))),
        _("With a text_config inside: {types}.").format(types=listed(sorted(WRAPPERS))),
    ]
