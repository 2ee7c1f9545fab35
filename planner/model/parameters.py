"""Parameter counts: what must be resident, and what one token passes through.

All experts are resident, so memory follows the total; FLOPs follow the active count. The difference is why a
mixture of experts is cheap to compute and expensive to hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog.model_spec import ModelSpec
from planner.model.builder import tensors
from planner.model.tensors import Tensor


@dataclass(frozen=True)
class ParameterCount:
    """Tensor elements (quantisation scales not counted)."""

    main: int
    """Embedding, decoder layers, head."""
    total: int
    """main + MTP blocks + vision tower: what a checkpoint holds once."""
    with_duplicates: int
    """total + the copies of embedding and head that an MTP block repeats in the checkpoint."""
    mtp: int
    vision: int
    active: int
    """Parameters of main that one token passes through, the input embedding counted whole."""
    active_without_embedding: int
    """The same without an untied input embedding (a look-up, no multiplication)."""


def count(spec: ModelSpec) -> ParameterCount:
    """Parameters of ``spec`` by part.

    Active counts leave out the experts that a token is not routed to, MTP and vision. A tied embedding counts in
    both active figures, since it is multiplied as the head.
    """
    main = mtp = duplicates = vision = embedding = 0
    active = 0.0
    for tensor in tensors(spec):
        if tensor.part == "mtp":
            mtp += tensor.parameters
        elif tensor.part == "mtp_duplicate":
            duplicates += tensor.parameters
        elif tensor.part == "vision":
            vision += tensor.parameters
        else:
            main += tensor.parameters
            active += active_parameters(tensor)
            if tensor.tensor_class == "embedding" and tensor.gemm is None:
                embedding += tensor.parameters
    total = main + mtp + vision
    return ParameterCount(
        main=main,
        total=total,
        with_duplicates=total + duplicates,
        mtp=mtp,
        vision=vision,
        active=round(active) + embedding,
        active_without_embedding=round(active),
    )


def active_parameters(tensor: Tensor) -> float:
    """Elements of ``tensor`` that one token passes through."""
    return tensor.rows * tensor.cols * tensor.layers * tensor.active_copies
