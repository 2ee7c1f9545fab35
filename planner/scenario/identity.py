"""The identity tuple: what a result is a result of. Two results compare only through the difference of their
tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from planner.scenario.base import Schema
from planner.scenario.differences import differences

if TYPE_CHECKING:
    from planner.catalog import ModelSpec
    from planner.scenario.schema import Sampling, Scenario


class Identity(Schema):
    """Checkpoint, tokenizer, precision, context, cut-off, sampling, engine and version, GPU, topology; None
    is unknown.
    """

    checkpoint: str = Field(description="Model checkpoint (Hugging Face id where there is one).")
    tokenizer: str | None = Field(None, description="Tokenizer the token counts refer to.")
    precision: dict[str, str] = Field(default_factory=dict, description="Number format by tensor class.")
    max_context: int | None = Field(None, description="Largest context of a request in tokens.")
    max_new_tokens: int | None = Field(None, description="Output cut-off of a request in tokens.")
    sampling: str | None = Field(None, description="Sampling settings.")
    engine: str | None = Field(None, description="Serving engine.")
    engine_version: str | None = Field(None, description="Engine version or commit.")
    gpu: str | None = Field(None, description="Accelerator id.")
    topology: str | None = Field(None, description="Nodes and layout of a worker.")

    def flat(self) -> dict[str, Any]:
        """Field -> value, precision classes as ``precision.<class>``."""
        out = {k: v for k, v in self.model_dump().items() if k != "precision"}
        return out | {f"precision.{k}": v for k, v in sorted(self.precision.items())}


def identity_difference(a: Identity, b: Identity) -> dict[str, tuple[Any, Any]]:
    """Field -> (value in a, value in b) where the two tuples differ; empty means the results compare
    directly.
    """
    return differences(a.flat(), b.flat())


def identity_of(
    scenario: Scenario,
    spec: ModelSpec,
    precision: Mapping[str, str],
    gpu: str | None = None,
    topology: str | None = None,
) -> Identity:
    """The tuple of a scenario's results: what it names itself, the model's own values for what it leaves out."""
    engine, workload = scenario.engine, scenario.workload
    checkpoint = spec.hf_id or spec.id
    return Identity(
        checkpoint=checkpoint,
        tokenizer=workload.tokenizer or checkpoint,
        precision=dict(precision),
        max_context=engine.options.max_model_len or spec.max_context_tokens,
        max_new_tokens=workload.max_new_tokens,
        sampling=sampling_text(workload.sampling),
        engine=engine.name,
        engine_version=engine.version,
        gpu=gpu,
        topology=topology,
    )


def sampling_text(sampling: Sampling) -> str:
    """``temperature 1, top_p 0.95, ignore_eos``."""
    text = f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g}"
    return f"{text}, ignore_eos" if sampling.ignore_eos else text
