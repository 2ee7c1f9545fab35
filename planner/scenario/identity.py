"""The identity tuple: what a result is a result of. Two results compare only through the difference of their
tuples.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from planner.scenario.base import Schema


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
    left, right = a.flat(), b.flat()
    keys = [*left, *(k for k in right if k not in left)]
    return {k: (left.get(k), right.get(k)) for k in keys if left.get(k) != right.get(k)}
