"""The plan: what :func:`planner.plan` returns, what YAML stores and what ``--json`` prints (same keys
everywhere).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_serializer

from planner.catalog.validation import check_mapping, validate
from planner.errors import PlannerError
from planner.scenario.base import Schema
from planner.scenario.identity import Identity
from planner.scenario.schema import Scenario
from planner.search.candidate_schema import (
    AdmissionPolicy,
    Bound,
    Breakdown,
    Candidate,
    Evidence,
    Interval,
    KvTransfer,
    Layout,
    Mark,
    MemoryGib,
    OperatingPoint,
    Percentiles,
    Phase,
    Pool,
    PrefixCache,
    PriorityLatency,
    SloCheck,
    Term,
    TierTraffic,
    UsdPerMtok,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "PLAN_VERSION",
    "AdmissionPolicy",
    "Bound",
    "Breakdown",
    "Candidate",
    "Estimate",
    "Evidence",
    "Interval",
    "KvTransfer",
    "Layout",
    "Mark",
    "MemoryGib",
    "NearestMiss",
    "OperatingPoint",
    "ParetoPoint",
    "Percentiles",
    "Phase",
    "Plan",
    "Pool",
    "PrefixCache",
    "PriorityLatency",
    "Rejection",
    "SloCheck",
    "Term",
    "TierTraffic",
    "UsdPerMtok",
    "Versions",
]

PLAN_VERSION = "planner.plan/1"


class ParetoPoint(Schema):
    """A point that nothing else beats in every respect."""

    rank: int | None = Field(None, description="Rank among the candidates, null where it is not listed.")
    serving: Literal["agg", "disagg"] = Field(description="Serving mode.")
    node: str = Field(description="Node type.")
    layout: Layout = Field(description="Layout of one worker (disagg: of a decode worker).")
    replicas: int = Field(description="Workers.")
    gpus: int = Field(description="GPUs of the whole deployment.")
    concurrency: float = Field(description="Requests in flight over the whole deployment.")
    usd_per_mtok_output: float | None = Field(None, description="USD per million output tokens.")
    output_tokens_per_s_per_gpu: float = Field(description="Output tokens per second and GPU in use.")
    goodput_rps: float | None = Field(None, description="Requests per second within every limit.")
    ttft_ms: float = Field(description="Mean time to first token in ms.")
    tpot_ms: float = Field(description="Mean time per output token in ms.")
    joules_per_token: float | None = Field(None, description="Energy per output token in joules.")
    ttft_p99_ms: float | None = Field(None, description="99th percentile of the time to first token in ms.")
    tbt_p99_ms: float | None = Field(None, description="99th percentile of the gaps between tokens in ms.")


class Rejection(Schema):
    """Layouts or operating points refused for one reason."""

    reason: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Typed reason, such as memory or slo_ttft.")
    count: int = Field(description="How many were refused for it.")
    term: str | None = Field(None, description="The term that decided, such as weights.")
    needed: float | None = Field(None, description="What the example needs, in unit.")
    available: float | None = Field(None, description="What there is, in unit.")
    unit: str | None = Field(None, description="Unit of needed and available.")
    example: str = Field(description="The one nearest to fitting, in words.")
    fix: str | None = Field(None, description="Smallest change that would make the example fit.")
    fits_gpus: int | None = Field(None, description="GPUs of the smallest worker that memory would hold.")


class NearestMiss(Schema):
    """A deployment that almost fits."""

    node: str = Field(description="Node type.")
    serving: Literal["agg", "disagg"] = Field(description="Serving mode.")
    layout: Layout = Field(description="Layout of one worker.")
    gpus: int = Field(description="GPUs of one worker or of the deployment.")
    reason: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Typed reason.")
    needed: float | None = Field(None, description="What it needs, in unit.")
    available: float | None = Field(None, description="What there is, in unit.")
    unit: str | None = Field(None, description="Unit of needed and available.")
    text: str = Field(description="The miss in one sentence.")
    fix: str | None = Field(None, description="The change that would make it fit.")
    fits_gpus: int | None = Field(None, description="GPUs of the smallest worker that memory would hold.")


class Versions(Schema):
    """What the numbers were made with."""

    planner: str = Field(description="Version of this package.")
    catalogue: str = Field(description="Content hash of the hardware and model catalogue.")
    coefficients: str = Field(description="Content hash of the fitted coefficients.")


class _Document(Schema):
    """Shared by plan and estimate: JSON and YAML that read back to an equal object."""

    def to_json(self, indent: int | None = 2) -> str:
        """One JSON document."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=indent, allow_nan=False)

    def to_yaml(self) -> str:
        """YAML text; floats are written exactly."""
        from planner.scenario.safe_yaml import dump_yaml

        return dump_yaml(self.model_dump(mode="json"))


class Estimate(_Document):
    """One layout at one operating point, feasible or not."""

    scenario: Scenario = Field(description="The question.")
    identity: Identity = Field(description="What the numbers are numbers of.")
    candidate: Candidate = Field(description="The numbers.")
    feasible: bool = Field(description="Whether it fits memory and meets every limit.")
    rejected: tuple[Rejection, ...] = Field((), strict=False, description="Why it is not feasible.")
    assumptions: tuple[str, ...] = Field((), strict=False, description="What was assumed.")
    versions: Versions = Field(description="What the numbers were made with.")

    @field_serializer("scenario")
    def _plain_scenario(self, scenario: Scenario) -> dict[str, Any]:
        return scenario.to_dict()


class Plan(_Document):
    """The answer to a scenario."""

    schema_version: Literal["planner.plan/1"] = Field(
        "planner.plan/1", alias="schema", description="Version of this format."
    )
    scenario: Scenario = Field(description="The question, with everything it read from files.")
    identity: Identity = Field(description="What the numbers are numbers of (of the first candidate).")
    versions: Versions = Field(description="What the plan was made with.")
    candidates: tuple[Candidate, ...] = Field((), strict=False, description="Feasible deployments, best first.")
    pareto: tuple[ParetoPoint, ...] = Field((), strict=False, description="Points not beaten in every respect.")
    rejected: tuple[Rejection, ...] = Field((), strict=False, description="Why the others fail, by reason.")
    nearest_misses: tuple[NearestMiss, ...] = Field(
        (), strict=False, description="What comes nearest, where nothing is feasible."
    )
    better: tuple[NearestMiss, ...] = Field(
        (),
        strict=False,
        description="What a single limit keeps from being a better answer, the least missing of each limit.",
    )
    assumptions: tuple[str, ...] = Field((), strict=False, description="What was assumed.")
    evaluated: int = Field(0, description="Layouts x operating points that were evaluated.")
    feasible: int = Field(0, description="How many of them are feasible.")
    catalogue: dict[Literal["accelerator", "node"], dict[str, dict[str, Any]]] | None = Field(
        None,
        description="Hardware of the asker's own that the scenario names, by kind and id, as the catalogue's files have"
        " it; null where all of it is in the catalogue.",
    )

    @field_serializer("scenario")
    def _plain_scenario(self, scenario: Scenario) -> dict[str, Any]:
        return scenario.to_dict()

    @property
    def best(self) -> Candidate | None:
        """The first candidate; None where nothing is feasible."""
        return self.candidates[0] if self.candidates else None

    @classmethod
    def from_yaml(cls, source: str | Path, where: str = "plan") -> Plan:
        """A plan from a YAML file, or from YAML text (a string with a line break); raises InputError where it
        is not one. ``where`` is what messages call a text.
        """
        from planner.scenario.load import read_text
        from planner.scenario.safe_yaml import MAX_PLAN_BYTES, load_yaml

        if isinstance(source, Path) or "\n" not in source:
            text, where = read_text(Path(source), MAX_PLAN_BYTES), str(source)
        else:
            text = source
        return validate(cls, check_mapping(load_yaml(text, where, MAX_PLAN_BYTES), where), where)

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate, nested keys joined by dots (``memory_gib.kv``); breakdown and texts stay out.

        Raises PlannerError where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise PlannerError("to_frame needs pandas: install the package with its [sheet] extra") from None

        keep_out = {"breakdown", "evidence", "explanation", "sizing", "slo", "traffic"}
        rows = [c.model_dump(mode="json", exclude=keep_out) for c in self.candidates]
        return pd.json_normalize(rows)
