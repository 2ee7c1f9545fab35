"""What fails and how long it takes to come back: the user's own values in place of the shipped ones."""

from __future__ import annotations

import streamlit as st

from planner.economics.recovery import reliability_defaults
from planner.ui.field_names import recovery_labels
from planner.ui.i18n import _
from planner.ui.numbers import sig
from planner.ui.sidebar.form import Form


def show(form: Form) -> None:
    """Failures to survive, rack size, recovery times."""
    with st.expander(_("Failures and recovery")):
        st.caption(_("Empty means the shipped value, which stands in the field; the Load page names its source."))
        form.whole(
            "failures",
            _("Failures to survive at once"),
            _("The k of N + k: spares are counted for so many GPUs, nodes or racks at once."),
        )
        form.whole(
            "reliability.gpus_per_rack",
            _("GPUs in one rack"),
            _("What one rack failure takes down."),
            optional=_("as the catalogue says"),
        )
        defaults = reliability_defaults()
        for field, label in recovery_labels().items():
            form.real(
                f"reliability.{field}",
                label,
                step=0.1 if field in ("weight_read_gb_s", "gpu_failures_per_year") else 5.0,
                optional=sig(getattr(defaults, field).value),
            )
