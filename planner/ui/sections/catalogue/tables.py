"""The catalogue as tables: one row an entry, numbers with units in the headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from planner.catalog import Catalog, ModelSpec
from planner.catalog.model_spec import GqaAttention, LinearAttention, MlaAttention
from planner.model.kv import kv_bytes_per_token
from planner.model.parameters import count
from planner.ui.i18n import _, language

if TYPE_CHECKING:
    import pandas as pd

_THREE = "%.4g"
VENDORS = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "huawei": "Huawei",
    "intel": "Intel",
    "google": "Google",
    "other": "other",
}
"""Vendors as they write themselves, in the order of the tables."""


def frame(kind: str, catalog: Catalog, own: frozenset[str]) -> pd.DataFrame:
    """Entries of a kind (accelerator, node, model); ``own`` are ids of the session's own."""
    return _frame(kind, catalog.version, language(), own, catalog)


@st.cache_data(max_entries=64, show_spinner=False)
def _frame(kind: str, version: str, spoken: str, own: frozenset[str], _catalog: Catalog) -> pd.DataFrame:
    import pandas as pd

    make = {"accelerator": _accelerators, "node": _nodes, "model": _models}[kind]
    rows = make(_catalog)
    for row in rows:
        row["own"] = row["id"] in own
    rows.sort(key=lambda r: (not r["own"], list(VENDORS).index(r["group"]) if r["group"] in VENDORS else 0, r["id"]))
    for row in rows:
        row["group"] = VENDORS.get(row["group"], row["group"])
    return pd.DataFrame(rows)


def _accelerators(catalog: Catalog) -> list[dict[str, Any]]:
    out = []
    for a in map(catalog.accelerator, catalog.accelerator_ids()):
        price = catalog.prices().rental(a.id)
        out.append(
            {
                "id": a.id,
                "name": a.name,
                "group": a.vendor,
                "arch": a.arch,
                "memory": a.memory.gb_sold,
                "bandwidth": a.memory.bandwidth_gb_s,
                "bf16": a.tflops_dense.bf16,
                "fp8": a.tflops_dense.fp8,
                "fp4": a.tflops_dense.fp4,
                "link": a.scale_up.unidirectional_gb_s,
                "tdp": a.power_w.tdp,
                "usd": price.typical_usd_per_gpu_hour() if price is not None else None,
            }
        )
    return out


def _nodes(catalog: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "id": n.id,
            "name": n.name,
            "group": catalog.accelerator(n.accelerator).vendor,
            "accelerator": n.accelerator,
            "gpus": n.gpus,
            "domain": n.scale_up.domain,
            "link": n.scale_up.unidirectional_gb_s_per_gpu,
            "nics": n.nics.count if n.nics else None,
            "gbit": n.nics.gbit_s if n.nics else None,
            "kw": n.power.max_kw,
        }
        for n in map(catalog.node, catalog.node_ids())
    ]


def _models(catalog: Catalog) -> list[dict[str, Any]]:
    return [model_row(m) for m in map(catalog.model, catalog.model_ids())]


def model_row(spec: ModelSpec) -> dict[str, Any]:
    """A model's main figures."""
    size = count(spec)
    return {
        "id": spec.id,
        "name": spec.name,
        "group": spec.family,
        "total": size.main / 1e9,
        "active": size.active_without_embedding / 1e9,
        "attention": attention_text(spec),
        "kv": float(kv_bytes_per_token(spec, "bf16")) / 1024,
        "context": spec.max_context_tokens,
        "weights": weights_text(spec),
    }


def attention_text(spec: ModelSpec) -> str:
    """Kinds of attention of a model, short."""
    words = []
    for a in spec.attentions.values():
        if isinstance(a, MlaAttention):
            words.append("MLA" + (_(" + sparse indexer") if a.indexer is not None else ""))
        elif isinstance(a, LinearAttention):
            words.append(_("linear"))
        elif isinstance(a, GqaAttention):
            name = "MHA" if a.kv_heads == a.heads else "MQA" if a.kv_heads == 1 else "GQA"
            words.append(_("{kind}, window").format(kind=name) if a.window_tokens or a.chunk_tokens else name)
    return " + ".join(dict.fromkeys(words))


def weights_text(spec: ModelSpec) -> str:
    """Number formats of the checkpoint's weights, the most frequent first."""
    return ", ".join(dict.fromkeys([*list(spec.precision.values())[1:], spec.precision["default"]]))


SOUGHT = ("name", "group", "arch", "accelerator", "attention", "weights")
"""Columns that a search looks into, beside the id."""


def matching(entries: pd.DataFrame, sought: str, groups: list[str]) -> pd.DataFrame:
    """Entries of one of ``groups`` (of any where there are none) in which every word of ``sought`` occurs."""
    text = entries["id"]
    for column in SOUGHT:
        if column in entries:
            text = text + " " + entries[column].astype(str)
    text = text.str.lower()
    keep = entries["group"].isin(groups) if groups else entries["group"].notna()
    for word in sought.lower().split():
        keep &= text.str.contains(word, regex=False)
    return entries[keep]


ORDER: Mapping[str, tuple[str, ...]] = {
    "accelerator": ("name", "memory", "bandwidth", "bf16", "fp8", "fp4", "link", "tdp", "usd"),
    "node": ("name", "accelerator", "gpus", "domain", "link", "nics", "gbit", "kw"),
    "model": ("name", "total", "active", "attention", "kv", "context", "weights"),
}
"""Columns of each kind of entry, as far as they fit a window."""


def order(kind: str, own: bool) -> list[str]:
    """Columns in order, with a mark on entries of one's own where there are any."""
    first, *rest = ORDER[kind]
    return [first, *(["own"] if own else []), *rest]


def columns(kind: str) -> dict[str, Any]:
    """Headers with units."""

    def number(label: str, help: str | None = None) -> Any:
        return st.column_config.NumberColumn(label, help=help, format=_THREE)

    text = st.column_config.TextColumn
    shared = {
        "own": st.column_config.CheckboxColumn(_("yours")),
        "name": text(_("Name"), width=160, pinned=True),
    }
    if kind == "accelerator":
        return shared | {
            "memory": number(_("Memory, GB"), _("As sold, decimal gigabytes.")),
            "bandwidth": number(_("Bandwidth, GB/s"), _("Of the memory.")),
            "bf16": number(_("bf16, TFLOP/s"), _("Dense peak, without structured sparsity.")),
            "fp8": number(_("fp8, TFLOP/s"), _("Dense peak, without structured sparsity.")),
            "fp4": number(_("fp4, TFLOP/s"), _("Dense peak, without structured sparsity.")),
            "link": number(_("Links, GB/s"), _("To other GPUs of the fast domain, one direction.")),
            "tdp": number(_("TDP, W")),
            "usd": number(_("$ per GPU-hour"), _("Where a plan starts from when no price is given.")),
        }
    if kind == "node":
        return shared | {
            "accelerator": text(_("Accelerator")),
            "gpus": st.column_config.NumberColumn(_("GPUs")),
            "domain": st.column_config.NumberColumn(_("Fast domain, GPUs")),
            "link": number(_("Links, GB/s"), _("To other GPUs of the fast domain, one direction.")),
            "nics": st.column_config.NumberColumn(_("NICs")),
            "gbit": number(_("NIC, Gbit/s")),
            "kw": number(_("Most power, kW")),
        }
    return shared | {
        "total": number(
            _("Parameters, billion"),
            _("All of the model: what memory holds. Draft layers (MTP) and vision towers apart."),
        ),
        "active": number(
            _("active, billion"),
            _("Those a token passes through: what arithmetic follows. A looked-up input embedding is not among them."),
        ),
        "attention": text(_("Attention")),
        "kv": number(_("KV, KiB per token"), _("In bf16, without replication.")),
        "context": st.column_config.NumberColumn(_("Context, tokens"), format="localized"),
        "weights": text(_("Checkpoint")),
    }
