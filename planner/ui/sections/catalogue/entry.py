"""Entries of a visitor's own: by form, by YAML, by config.json. They stay in this session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from planner.catalog import ModelSpec
from planner.errors import PlannerError, UnsupportedArchitectureError
from planner.scenario.safe_yaml import dump_yaml
from planner.ui import overlay, own, state, upload
from planner.ui.i18n import _
from planner.ui.phrases import translated
from planner.ui.sections import errors
from planner.ui.sections.catalogue import detail
from planner.ui.text import listed, pair, plain, sentence
from planner.ui.words import node_label

_CONFIG, _CONFIG_NAME, _YAML = "own.config", "own.config.name", "own.yaml"
_SHOWN = "own.shown"


def config() -> None:
    """A pasted config.json: the model that it describes, or why it is refused."""
    st.caption(_("The text of config.json from the model's Hugging Face page. Nothing is fetched from anywhere."))
    text = st.text_area(
        "config.json",
        key=_CONFIG,
        height=180,
        max_chars=upload.MAX_CONFIG_BYTES,
        label_visibility="collapsed",
        placeholder='{"architectures": ["…"], "hidden_size": …}',
    )
    name = st.text_input(
        _("Name for it"), key=_CONFIG_NAME, max_chars=80, placeholder=_("taken from the configuration")
    )
    if text.strip():
        _show(lambda: upload.spec_from_config(text, name), "config")


def model() -> None:
    """A model by its main numbers."""
    kinds = {
        "llama": _("Dense"),
        "qwen3_moe": _("Experts, grouped-query attention"),
        "deepseek_v3": _("Experts, latent attention (MLA)"),
    }
    shape = st.segmented_control(
        _("Architecture"),
        list(kinds),
        default="qwen3_moe",
        format_func=kinds.__getitem__,
        key="own.m.shape",
        required=True,
    )
    shape = shape or "qwen3_moe"
    latent, moe = shape == "deepseek_v3", shape != "llama"
    fields: list[tuple[str, str, int]] = [
        ("layers", _("Layers"), 61 if latent else 48),
        ("hidden", _("Hidden size"), 7168 if latent else 4096),
        ("heads", _("Attention heads"), 128 if latent else 32),
    ]
    fields += (
        [("q_rank", _("Rank of queries"), 1536), ("kv_rank", _("Rank of keys and values"), 512)]
        if latent
        else [("kv_heads", _("KV heads"), 8), ("head_dim", _("Head size"), 128)]
    )
    fields.append(("width", _("Feed-forward width"), 18432 if latent else 14336))
    if moe:
        fields += [
            ("experts", _("Experts"), 256 if latent else 128),
            ("active", _("Experts per token"), 8),
            ("expert_width", _("Expert width"), 2048 if latent else 1536),
        ]
    if latent:
        fields += [("shared", _("Shared experts"), 1), ("dense_layers", _("Dense layers first"), 3)]
    fields += [("vocab", _("Vocabulary"), 129280 if latent else 151936), ("context", _("Longest context"), 131072)]
    values: dict[str, Any] = {"shape": shape}
    with st.form(f"own.model.{shape}", border=False):
        values["id"] = st.text_input(_("Name for it"), value="my-model", max_chars=64)
        for place, (key, label, first) in zip(_cells(len(fields), 4), fields, strict=True):
            values[key] = place.number_input(label, value=first, min_value=1, max_value=10_000_000, step=1)
        values["fp8"] = st.toggle(_("Weights in fp8, blocks of 128 × 128"), value=latent)
        asked = st.form_submit_button(_("Work it out"), icon=":material/calculate:")
    if asked:
        st.session_state[_SHOWN] = values
    if st.session_state.get(_SHOWN, {}).get("shape") == shape:
        _show(lambda: own.model(st.session_state[_SHOWN]), "form")


def _cells(n: int, wide: int) -> list[Any]:
    out: list[Any] = []
    while len(out) < n:
        out += st.columns(wide, gap="small", vertical_alignment="bottom")
    return out[:n]


def _show(make: Callable[[], ModelSpec], key: str) -> None:
    try:
        spec = make()
    except UnsupportedArchitectureError as error:
        st.error(_refused(error, key), icon=":material/block:")
        st.markdown("\n".join(f"- {plain(t)}" for t in own.refusal(error)))
        return
    except PlannerError as error:
        st.error(errors.message(error), icon=":material/edit:")
        return
    st.success(_("Understood: {id}").format(id=plain(spec.id)), icon=":material/check:")
    detail.model(spec)
    st.button(
        _("Use this model in the scenario"),
        icon=":material/input:",
        key=f"own.use.{key}",
        on_click=_use,
        args=(spec,),
        type="primary",
    )


def _refused(error: UnsupportedArchitectureError, key: str) -> str:
    """The keys that are at fault, in the form by their names there, and why."""
    names = own.field_names() if key == "form" else {}
    where = listed(names.get(k, k) for k in error.keys)
    if key != "form":
        where = pair("config.json", where)
    why = error.allowed.split(";")[0] if own.refusal(error) else error.allowed  # what is known follows as a list
    return pair(f"**{plain(where)}**", plain(sentence(translated(why))))


def _use(spec: ModelSpec) -> None:
    if spec.id in state.catalog().model_ids():
        spec = spec.model_copy(update={"id": f"{spec.id}-own"})
    state.add_spec(spec)
    st.toast(_("Model {id} is ready.").format(id=plain(spec.id)))


def hardware() -> None:
    """An accelerator and a node of them, from a known part with other numbers."""
    catalog = state.catalog()
    known = [i for i in catalog.accelerator_ids() if catalog.accelerator(i).memory.bandwidth_gb_s]
    base = st.selectbox(
        _("Start from"),
        known,
        index=known.index("h100-sxm") if "h100-sxm" in known else 0,
        key="own.h.base",
        help=_("Its generation decides which measured operator curves the new part follows, on its own peaks."),
    )
    first = own.defaults(catalog, base)
    follows = own.usable_gib(catalog, base, 1.0) is not None
    fields = [
        ("memory_gb", _("Memory capacity, GB"), False),
        ("usable_gib", _("Usable capacity, GiB"), True),
        ("bandwidth_gb_s", _("Memory bandwidth, GB/s"), False),
        ("bf16", _("bf16, TFLOP/s"), False),
        ("fp8", _("fp8, TFLOP/s"), True),
        ("int8", _("int8, TOP/s"), True),
        ("fp4", _("fp4, TFLOP/s"), True),
        ("link_gb_s", _("Links, GB/s"), True),
        ("tdp_w", _("TDP, W"), True),
    ]
    counts = [("domain", _("Fast domain, GPUs")), ("gpus", _("GPUs in a node")), ("nics", _("NICs in a node"))]
    values: dict[str, Any] = {"base": base}
    with st.form(f"own.hardware.{base}", border=False):
        values["id"] = st.text_input(_("Name for it"), value=f"my-{base}", max_chars=40)
        cells = _cells(len(fields) + len(counts) + 1, 4)
        for place, (key, label, empty) in zip(cells, fields, strict=False):
            given = first[key]
            values[key] = place.number_input(
                label,
                value=float(given) if given is not None else None,
                min_value=1e-3,
                max_value=1e7,
                step=1.0,
                format="%.6g",
                placeholder=_placeholder(key, follows) if empty else None,
            )
        for place, (key, label) in zip(cells[len(fields) :], counts, strict=False):
            values[key] = place.number_input(label, value=int(first[key]), min_value=1, max_value=4096, step=1)
        values["nic_gbit_s"] = cells[-1].number_input(
            _("NIC, Gbit/s"), value=float(first["nic_gbit_s"]), min_value=1.0, step=100.0, format="%.6g"
        )
        asked = st.form_submit_button(_("Add it"), icon=":material/add:")
    if asked:
        try:
            made = own.hardware(catalog, values)
            for kind, members in made.items():
                for entry in members.values():
                    state.bring(overlay.added(state.entries(), kind, entry))
        except PlannerError as error:
            st.error(errors.message(error), icon=":material/edit:")
            return
        state.report(None)
        (node,) = made["node"]
        told = _("{id} is added and chosen as the hardware to try; other hardware is no longer chosen.")
        state.put_later({"nodes": [node]}, told.format(id=plain(node)))
        st.rerun()


def _placeholder(key: str, follows: bool) -> str:
    return _("follows the capacity") if key == "usable_gib" and follows else _("not known")


def from_text() -> None:
    """Entries as YAML, in the shape of the shipped files."""
    st.caption(
        _(
            "An accelerator, a node or a model, as in the planner's own files (a detail above shows the keys); "
            "or what the button below saved."
        )
    )
    st.text_area("YAML", key=_YAML, height=220, max_chars=upload.MAX_CONFIG_BYTES, label_visibility="collapsed")
    st.button(_("Add it"), icon=":material/add:", key="own.yaml.add", on_click=_add_text)


def _add_text() -> None:
    try:
        entries, spec = own.from_yaml(st.session_state.get(_YAML) or "", state.entries())
        if spec is not None:
            _use(spec)
        else:
            state.bring(entries)
    except PlannerError as error:
        state.report(error)


def kept() -> None:
    """The session's own entries: use, delete, take home."""
    entries = state.entries()
    specs = state.specs()
    if not entries and not specs:
        st.caption(_("Nothing of yours yet."))
        return
    for kind, members in entries.items():
        for id in members:
            left, middle, right = st.columns([6, 3, 1], vertical_alignment="center")
            left.markdown(f"**{plain(id)}** · {_('node') if kind == 'node' else _('accelerator')}")
            if kind == "node":
                middle.button(
                    _("Use in the scenario"),
                    key=f"own.node.{id}",
                    on_click=state.put,
                    args=({"nodes": [id]},),
                    help=plain(node_label(id)),
                )
            right.button(
                "",
                icon=":material/delete:",
                key=f"own.delete.{kind}.{id}",
                on_click=_delete,
                args=(kind, id),
                help=_("Delete"),
                type="tertiary",
            )
    for id in specs:
        st.markdown(f"**{plain(id)}** · {_('model')}")
    if entries:
        st.download_button(
            _("Save them (YAML)"),
            data=dump_yaml(entries),
            file_name="catalogue.yaml",
            mime="application/yaml",
            icon=":material/download:",
            on_click="ignore",
        )
    st.caption(_("They stay in this session; links and this file carry them on, models travel inside the scenario."))


def _delete(kind: str, id: str) -> None:
    entries = {k: {i: e for i, e in v.items() if (k, i) != (kind, id)} for k, v in state.entries().items()}
    if kind == "accelerator":  # a node without its accelerator says nothing
        entries["node"] = {i: e for i, e in entries.get("node", {}).items() if e["accelerator"] != id}
    state.bring({k: v for k, v in entries.items() if v})
