"""Measured runs and start-ups with their predictions, worked out once per catalogue for all sessions."""

from __future__ import annotations

import streamlit as st

from planner.catalog import Catalog
from planner.evidence.evidence_table import EvidenceTable, evidence_table, memory_evidence
from planner.evidence.memory_validate import RowPrediction


@st.cache_resource(max_entries=4, show_spinner=False)
def runs(catalogue: str, _catalog: Catalog) -> EvidenceTable:
    """Measured runs with their predictions; raises InputError where neither they nor their shipped table are there."""
    return evidence_table(_catalog)


@st.cache_resource(max_entries=4, show_spinner=False)
def starts(catalogue: str, _catalog: Catalog) -> list[RowPrediction]:
    """Measured start-ups with their predictions; raises as :func:`runs` does."""
    return memory_evidence(_catalog)
