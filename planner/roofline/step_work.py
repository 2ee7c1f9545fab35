"""What a step is evaluated on: the context that candidates share and the work each of them does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.hardware.curves import CurveSet
from planner.layout.layouts import Layouts
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import StepCoefficients
from planner.roofline.program import GemmOp, Program

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StepContext:
    """What all candidates of one evaluation share: the model, its formats, one accelerator and engine."""

    program: Program
    precision: PrecisionPlan
    curves: CurveSet
    coefficients: StepCoefficients
    domain: int
    """Ranks in a scale-up domain."""
    expert_skew: float
    """Coefficient of variation of expert popularity (planner.roofline.moe)."""
    cuda_graphs: bool = True
    expert_kernel: str = "moe"
    """Curve of the experts where no tokens are dispatched point to point."""
    whole_dense: bool = False
    """Under attention DP ranks hold dense MLPs whole and split their replica's tokens (memory's ``dense_split``)."""

    def ranks_of(self, gemm: GemmOp, layouts: Layouts, tp: Array) -> Array:
        """Ranks that split the weights of a product, (n,): ``tp`` or fewer, of which the others split its tokens."""
        if not self.whole_dense or gemm.tensor_class != "dense_mlp":
            return tp
        return np.where(layouts.attention_dp > 1, 1.0, tp)


@dataclass(frozen=True)
class StepWork:
    """Work of one step; arrays of shape (n,) that go with the layouts. Counts are per attention-DP rank.

    ``prefill_tokens`` on the busiest rank come from ``prefill_seqs`` sequences of which ``prefill_past`` tokens each
    are cached; ``prefill_group_tokens`` is their sum over the worker's ranks.
    """

    decode_seqs: Array
    kv_tokens: Array
    prefill_tokens: Array | None = None
    prefill_seqs: Array | None = None
    prefill_past: Array | None = None
    prefill_group_tokens: Array | None = None

    @property
    def has_prefill(self) -> bool:
        return self.prefill_tokens is not None


@dataclass(frozen=True)
class Batch:
    """Work of one pipeline micro-batch (and of one of two overlapped halves)."""

    decode: Array
    kv: Array
    prefill: Array | None
    prefill_seqs: Array | None
    prefill_past: Array | None
    prefill_group: Array | None
    tokens: Array

    @classmethod
    def of(cls, work: StepWork, parts: Array) -> Batch:
        decode = work.decode_seqs / parts
        if work.prefill_tokens is None:
            return cls(decode, work.kv_tokens, None, None, None, None, decode)
        prefill = work.prefill_tokens / parts
        assert work.prefill_seqs is not None
        assert work.prefill_group_tokens is not None
        return cls(
            decode,
            work.kv_tokens,
            prefill,
            work.prefill_seqs / parts,
            work.prefill_past,
            work.prefill_group_tokens / parts,
            decode + prefill,
        )

    def group_tokens(self, layouts: Layouts) -> Array:
        """Tokens of the step over all attention-DP ranks."""
        total = self.decode * layouts.attention_dp
        return total if self.prefill_group is None else total + self.prefill_group

    @property
    def sampled(self) -> Array:
        """Rows the head works on: one per sequence."""
        return self.decode if self.prefill_seqs is None else self.decode + self.prefill_seqs
