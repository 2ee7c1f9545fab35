"""The engine of a scenario: its name and version, its options, speculative decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from planner.scenario.base import Name, Schema, Tokens

if TYPE_CHECKING:
    from typing import Self

EngineName = Literal["vllm", "sglang", "trtllm"]


class Speculation(Schema):
    """Speculative decoding: several draft tokens of each sequence are checked in one decode step."""

    method: Literal["mtp", "eagle3"] = Field(
        "mtp", description="Where drafts come from: the model's own multi-token-prediction block, or an EAGLE-3 head."
    )
    tokens: Annotated[int, Field(ge=1, le=16)] = Field(description="Draft tokens of each sequence in a step.")
    acceptance: tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...] | None = Field(
        None,
        strict=False,
        description="Chance by position that a draft token is accepted, given that all before it are.",
    )
    tokens_per_step: Annotated[float, Field(ge=1.0, le=17.0)] | None = Field(
        None, description="Mean tokens that a step makes, the next one included; in place of acceptance."
    )
    draft_model: Name | None = Field(None, description="Checkpoint of the EAGLE-3 head, for launch scripts.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.acceptance is None) == (self.tokens_per_step is None):
            raise ValueError("give acceptance by position or tokens_per_step, one of them")
        if self.acceptance is not None and len(self.acceptance) != self.tokens:
            raise ValueError(f"acceptance needs {self.tokens} numbers, one for each draft token")
        if self.tokens_per_step is not None and self.tokens_per_step > self.tokens + 1:
            raise ValueError(f"tokens_per_step is at most {self.tokens + 1}: the drafts and the next token")
        return self


class EngineOptions(Schema):
    """Engine settings that change memory or time; absent means the engine's own default."""

    gpu_memory_utilization: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None, description="Part of GPU memory the engine may use."
    )
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Largest number of sequences in one step of one attention replica."
    )
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="Token budget of one step of one attention replica."
    )
    max_model_len: Tokens | None = Field(
        None, description="Largest context (prompt plus output) of a request in tokens."
    )
    chunked_prefill: bool | None = Field(None, description="Whether long prompts are split over steps.")
    cuda_graphs: bool | None = Field(None, description="Whether decode steps replay captured graphs.")
    two_batch_overlap: bool | None = Field(
        None, description="Whether two micro-batches overlap communication with compute."
    )
    speculation: Speculation | None = Field(
        None, description="Speculative decoding or multi-token prediction; absent means one token a step."
    )
    prefix_cache_share: Annotated[float, Field(ge=0.0, lt=1.0)] | None = Field(
        None,
        description="Part of the KV memory that running requests leave to cached prefixes; absent means whatever they "
        "do not use.",
    )
    kv_transfer_overlap: bool | None = Field(
        None,
        description="Disaggregated serving: whether each layer's KV is sent while later layers are computed; absent "
        "means after the prompt, as the engines' own connectors do.",
    )
    redundant_experts: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        None, description="Replicas of hot experts over the whole expert-parallel group."
    )
    expert_skew: Annotated[float, Field(ge=0.0, le=100.0)] | None = Field(
        None,
        description="Coefficient of variation of the experts' popularity; 0 is perfectly even routing.",
    )


class Engine(Schema):
    """The serving engine."""

    name: EngineName = Field(description="Serving engine.")
    version: Name | None = Field(
        None, description="Engine version, quoted; absent means the newest the coefficients know."
    )
    options: EngineOptions = Field(default_factory=EngineOptions, description="Settings that change memory or time.")
