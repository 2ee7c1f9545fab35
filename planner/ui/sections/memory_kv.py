"""The KV calculator: bytes per token and sequence, how many sequences fit; paging beside reservation."""

from __future__ import annotations

import math

import streamlit as st

from planner.ui.figures.common import CONFIG
from planner.ui.figures.memory_page import admission_bars, sequences_by_length
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num, whole
from planner.ui.numbers import count, percent, sig
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.how import how
from planner.ui.sections.memory_data import (
    Admission,
    KvAnswer,
    KvLayers,
    admission,
    fit_curve,
    kv_answer,
    kv_formats,
)
from planner.ui.sections.tables import table
from planner.ui.subject import PoolWorkers, Subject
from planner.ui.text import plain
from planner.units import GIB, KIB, MIB


def show(subject: Subject, w: PoolWorkers) -> None:
    """Inputs, the three answers, the curve and the layers behind them."""
    s = subject.setup
    st.subheader(
        _("KV calculator"),
        help=_("Keys and values of past tokens, kept so that they are not computed again: the KV cache."),
        anchor=False,
    )
    with st.container(horizontal=True, gap="small"):
        formats = kv_formats()
        kv_format = st.selectbox(
            _("KV format"),
            formats,
            index=formats.index(s.precision.kv) if s.precision.kv in formats else 0,
            key=f"memory.kv.format.{subject.key}",
            help=_("Number format of cached values. The scenario's is the first; fp8 halves the cache."),
        )
        tokens = st.number_input(
            _("Tokens in a sequence"),
            min_value=1,
            max_value=max(s.spec.max_context_tokens, 1),
            value=min(max(math.ceil(s.traffic.mean_context), 1), s.spec.max_context_tokens),
            step=256,
            key=f"memory.kv.tokens.{subject.key}",
            help=_("Prompt and output so far. Starts at the mean of a request that is being answered."),
        )
    found = kv_answer(s, w, kv_format, int(tokens))
    _metrics(found, int(tokens))
    stages = int(w.layouts.pp[0])
    if stages > 1:
        st.caption(
            _(
                "Per GPU of the pipeline stage with the least room: {n} of the layers. The other stages (of {stages}) "
                "hold the rest."
            ).format(n=count(sum(g.layers for g in found.layers)), stages=count(stages))
        )
    curve = fit_curve(s, w, kv_format)
    if curve.paged.max() >= 1:
        st.plotly_chart(
            sequences_by_length(curve, float(tokens), s.longest_request),
            config=CONFIG,
            key="memory.kv.curve",
            alt=_("Sequences that fit by their length"),
        )
    else:
        st.warning(_("No sequence fits this worker: the other terms leave no room for the cache."))
    _layers(found.layers)
    how(
        "memory.kv",
        {
            _("Bytes per token on one GPU"): _per_token(found),
            _("Compression by the latent"): _latent(found),
        },
    )


def _metrics(found: KvAnswer, tokens: int) -> None:
    cards(
        (
            Card(
                _("Per token and GPU"), _size(found.per_token), help=_("Cache that one more token takes on each GPU.")
            ),
            Card(
                _("Per sequence and GPU"),
                _size(found.per_sequence),
                help=_("Cache of a sequence of {n} tokens. Windows keep no more than they see.").format(
                    n=count(tokens)
                ),
            ),
            Card(
                _("Sequences in one worker"),
                count(found.sequences),
                help=_(
                    "Sequences of {n} tokens, in whole pages of the engine, as many whole ones as fit on every "
                    "attention rank. What memory holds on the page Load is not rounded to whole ones on each rank, and "
                    "paging beside it counts with lengths that end anywhere in a page: all three differ a little."
                ).format(n=count(tokens)),
            ),
        ),
        even=False,
    )
    if found.uncompressed_ratio is not None:
        st.caption(
            _(
                "Multi-head latent attention: the same heads cached as plain keys and values would take "
                "{ratio} times as much per token."
            ).format(ratio=sig(found.uncompressed_ratio))
        )


def _size(size: float) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{sig(size / unit)} {name}"
    return f"{sig(size)} B"


def layer_kinds() -> dict[str, str]:
    """Kinds of layers by what they cache."""
    return {
        "gqa": _("Full attention (grouped queries)"),
        "mla": _("Latent attention (MLA)"),
        "window": _("Sliding window"),
        "linear": _("Linear attention (state)"),
    }


def _layers(layers: tuple[KvLayers, ...]) -> None:
    kinds = layer_kinds()
    columns: dict[str, list[float | int | None]] = {
        _("Layers"): [g.layers for g in layers],
        _("Values per token and layer"): [g.values for g in layers],
        _("KiB per token"): [g.token_bytes / KIB for g in layers],
        _("MiB per sequence, fixed"): [g.state_bytes / MIB for g in layers],
        _("Window, tokens"): [g.window_tokens for g in layers],
    }
    table(
        {_("Layers that cache so"): [kinds[g.kind] for g in layers]}
        | {name: cells for name, cells in columns.items() if any(cells)},
        alt=_("Cache by kind of layer, on one GPU"),
    )


def _per_token(found: KvAnswer) -> Formula:
    parts = [rf"{g.layers} \cdot {num(g.token_bytes / g.layers, 5)}" for g in found.growing if g.token_bytes] or ["0"]
    return Formula(
        r"\sum_{\text{layers}} \text{values per token} \cdot \text{bytes per value}",
        rf"{' + '.join(parts)} = {num(found.per_token, 5)}\ \text{{B}}",
        _(
            "Grouped queries: 2 × key-value heads of this GPU × head dimension. MLA: latent + rope dimension, on every "
            "GPU of a tensor-parallel group. Windows stop growing when full; linear attention keeps a fixed state."
        ),
    )


def _latent(found: KvAnswer) -> Formula | None:
    if found.uncompressed_ratio is None:
        return None
    return Formula(
        r"\frac{\text{heads} \cdot (d_{qk} + d_v) \cdot \text{layers}}{(d_{latent} + d_{rope}) \cdot \text{layers}}",
        rf"\frac{{{num(found.uncompressed_ratio * found.per_token, 5)}}}{{{num(found.per_token, 5)}}}"
        rf" = {num(found.uncompressed_ratio)}",
        _("Against the same heads without the latent, not against another model."),
    )


def show_admission(subject: Subject, w: PoolWorkers) -> None:
    """Reservation by maximum length and paging, side by side."""
    a = admission(subject.setup, w)
    st.subheader(
        _("Reserve the longest request, or page as it grows?"),
        help=_(
            "An engine that reserves each request's longest possible length up front runs out of memory at low load. "
            "Paging gives out blocks as tokens come."
        ),
        anchor=False,
    )
    if a.paged < 1:
        st.warning(_("No request fits this worker: the other terms leave no room for the cache."))
        return
    st.markdown(_comparison(a))
    st.plotly_chart(
        admission_bars(a), config=CONFIG, key="memory.admission", alt=_("Requests that fit, by paging and reservation")
    )
    how(
        "memory.admission",
        {
            _("Tokens that a running request holds"): Formula(
                r"\bar{T} = E[I] + \frac{E[O^2]}{2\,E[O]}",
                rf"\bar{{T}} = {num(a.mean_tokens)} \pm {num(a.std_tokens)}\ \text{{tokens}}",
                _(
                    "A look at a random moment finds long outputs more often, halfway through "
                    "(length-biased sampling). I: input tokens, O: output tokens."
                ),
            ),
            _("Requests that fit with certainty of 99 %"): Formula(
                r"N\,\mu + z\,\sigma\sqrt{N} \le \text{KV cache}",
                rf"z = 2.33:\ N = {num(a.paged_99)}",
                _("μ and σ: bytes of a running request's pages; lengths of different requests are independent."),
            ),
            _("Unused part"): Formula(
                r"1 - \frac{\mu}{\text{bytes}(T_{max})} \qquad 1 - \frac{\bar{T}}{b \cdot E[\text{blocks}]}",
                rf"{num(100 * a.reserved_unused)}\,\% \qquad {num(100 * a.paged_unused, 2)}\,\%"
                rf"\quad (T_{{max}} = {whole(a.longest_tokens)},\ b = {a.block_tokens})",
                _(
                    "Left: of a reserved slot, which holds the longest request in every layer, windowed ones too. "
                    "Right: of pages of b tokens, the unfilled end of the last one."
                ),
            ),
        },
    )


def _comparison(a: Admission) -> str:
    if a.reserved < 1:
        return plain_bold(
            _(
                "Paging holds **{paged}** requests of this traffic in one worker; reserving {longest} tokens for each "
                "would hold **none**."
            ),
            a,
        )
    return plain_bold(
        _(
            "Paging holds **{paged}** requests of this traffic in one worker, reserving {longest} tokens for each "
            "**{reserved}**: {unused} of every reserved slot would stay empty."
        ),
        a,
    )


def plain_bold(sentence: str, a: Admission) -> str:
    """``sentence`` with the numbers of ``a`` put in."""
    return sentence.format(
        paged=plain(count(a.paged)),
        longest=plain(count(a.longest_tokens)),
        reserved=plain(count(a.reserved)),
        unused=percent(a.reserved_unused),
    )
