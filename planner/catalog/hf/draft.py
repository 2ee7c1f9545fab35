"""What an architecture module fills in; assembled into a ModelSpec by planner.catalog.hf_config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.catalog.model_spec import AttentionSpec, FeedForwardSpec, LayerGroup, Mtp


@dataclass(frozen=True)
class ModuleNames:
    """Module names below ``model.layers.N.`` as quantisation ignore lists spell them."""

    attention: str = "self_attn"
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    out: str = "o_proj"
    mlp: str = "mlp"
    mlp_parts: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    moe: str = "mlp"
    router: str = "gate"
    expert_parts: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    shared: str = "shared_experts"
    linear: tuple[str, ...] = ("in_proj_qkvz", "in_proj_ba", "out_proj")


@dataclass
class Draft:
    """The architecture part of a specification, layer by layer."""

    hidden_size: int
    vocab_size: int
    max_context_tokens: int
    attentions: dict[str, AttentionSpec] = field(default_factory=dict)
    feed_forwards: dict[str, FeedForwardSpec] = field(default_factory=dict)
    layers: list[tuple[str, str]] = field(default_factory=list)
    """(attention key, feed-forward key) of every decoder layer in order."""
    norms_per_layer: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    mtp: Mtp | None = None
    names: ModuleNames = field(default_factory=ModuleNames)
    notes: list[str] = field(default_factory=list)

    def groups(self) -> tuple[tuple[LayerGroup, ...], tuple[int, ...]]:
        """Layer groups and the pattern that orders them (empty where the groups simply follow each other)."""
        kinds = list(dict.fromkeys(self.layers))
        order = [kinds.index(layer) for layer in self.layers]
        groups = tuple(
            LayerGroup(
                count=order.count(i),
                attention=attention,
                feed_forward=feed_forward,
                norms=self.norms_per_layer,
            )
            for i, (attention, feed_forward) in enumerate(kinds)
        )
        if order == sorted(order):
            return groups, ()
        return groups, tuple(_period(order))


def _period(order: Sequence[int]) -> Sequence[int]:
    for length in range(2, len(order)):
        if all(order[i] == order[i % length] for i in range(len(order))):
            return order[:length]
    return order
