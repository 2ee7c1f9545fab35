"""Serving engine, number formats."""

from __future__ import annotations

import streamlit as st

from planner.ui.field_names import option_labels
from planner.ui.i18n import _
from planner.ui.sidebar.form import Form
from planner.ui.words import engines, precision_classes


def show(form: Form) -> None:
    """Engine with its options, precision by tensor class."""
    with st.expander(_("Precision")):
        st.caption(_("Number format by kind of tensor. Empty: as in the checkpoint."))
        formats = {f: f for f in _formats()}
        own = _("as in the checkpoint")
        for name, label in precision_classes().items():
            form.select(f"precision.{name}", label, formats, optional=own)
    with st.expander(_("Engine")):
        form.select("engine.name", _("Engine"), engines())
        form.text("engine.version", _("Version"), placeholder=_("newest that is known"))
        _options(form)


def _options(form: Form) -> None:
    own = _("engine's own")
    help, label = option_help(), option_labels()
    form.real(
        "option.gpu_memory_utilization",
        label["gpu_memory_utilization"],
        help["gpu_memory_utilization"],
        step=0.01,
        optional=own,
    )
    form.whole("option.max_num_seqs", label["max_num_seqs"], help["max_num_seqs"], optional=own)
    form.whole(
        "option.max_num_batched_tokens",
        label["max_num_batched_tokens"],
        help["max_num_batched_tokens"],
        optional=own,
    )
    form.whole("option.max_model_len", label["max_model_len"], help["max_model_len"], optional=own)
    form.three_way("option.chunked_prefill", label["chunked_prefill"], help["chunked_prefill"])
    form.three_way("option.cuda_graphs", label["cuda_graphs"], help["cuda_graphs"])
    form.three_way("option.two_batch_overlap", label["two_batch_overlap"], help["two_batch_overlap"])
    form.whole(
        "option.redundant_experts",
        label["redundant_experts"],
        help["redundant_experts"],
        optional=own,
    )
    form.real(
        "option.expert_skew",
        label["expert_skew"],
        help["expert_skew"],
        step=0.1,
        optional=own,
    )


def option_help() -> dict[str, str]:
    """What an engine option means."""
    return {
        "gpu_memory_utilization": _("Part of GPU memory the engine may use."),
        "max_num_seqs": _("Largest number of sequences in one step of one attention replica."),
        "max_num_batched_tokens": _("Token budget of one step of one attention replica."),
        "max_model_len": _("Largest context (prompt plus output) of a request in tokens."),
        "chunked_prefill": _("Whether long prompts are split over steps."),
        "cuda_graphs": _("Whether decode steps replay captured graphs."),
        "two_batch_overlap": _("Whether two micro-batches overlap communication with compute."),
        "redundant_experts": _("Replicas of hot experts over the whole expert-parallel group."),
        "expert_skew": _("Coefficient of variation of the experts' popularity; 0 is perfectly even routing."),
    }


@st.cache_data(show_spinner=False)
def _formats() -> list[str]:
    from planner.model.precision import FORMATS

    return list(FORMATS)
