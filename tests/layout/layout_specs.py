"""Model specifications with published shapes: these tests do not depend on the catalogue."""

from __future__ import annotations

from planner.catalog.model_spec import (
    AttentionSpec,
    DenseFeedForward,
    FeedForwardSpec,
    GqaAttention,
    LayerGroup,
    MlaAttention,
    ModelSpec,
    MoeFeedForward,
)
from planner.layout.node_shape import NodeShape

H800 = NodeShape("hgx-h800", gpus=8, domain=8, nics=8)
L40S = NodeShape("l40s-8-pcie", gpus=8, domain=1, nics=8)
NVL72 = NodeShape("gb200-nvl72", gpus=72, domain=72, nics=72)


def _spec(
    id: str, attention: AttentionSpec, forwards: dict[str, FeedForwardSpec], layers: list[tuple[int, str]],
    hidden: int, vocab: int, weights: str,
) -> ModelSpec:  # fmt: skip
    return ModelSpec(
        id=id,
        name=id,
        family=id,
        hidden_size=hidden,
        vocab_size=vocab,
        max_context_tokens=131072,
        attentions={"a": attention},
        feed_forwards=forwards,
        layers=tuple(LayerGroup(count=n, attention="a", feed_forward=f) for n, f in layers),
        precision={"default": "bf16"}
        | dict.fromkeys(("attention", "dense_mlp", "shared_experts", "routed_experts"), weights),
    )


DEEPSEEK_V3 = _spec(
    "deepseek-v3",
    MlaAttention(
        heads=128, q_lora_rank=1536, kv_lora_rank=512,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    ),
    {
        "dense": DenseFeedForward(intermediate_size=18432),
        "moe": MoeFeedForward(
            experts=256, experts_per_token=8, expert_intermediate_size=2048, shared_intermediate_size=2048,
            groups=8, groups_per_token=4,
        ),
    },
    [(3, "dense"), (58, "moe")],
    7168,
    129280,
    "fp8_block",
)  # fmt: skip
LLAMA_70B = _spec(
    "llama-3.3-70b",
    GqaAttention(heads=64, kv_heads=8, head_dim=128),
    {"dense": DenseFeedForward(intermediate_size=28672)},
    [(80, "dense")],
    8192,
    128256,
    "bf16",
)
PHI_4 = _spec(
    "phi-4",
    GqaAttention(heads=40, kv_heads=10, head_dim=128),
    {"dense": DenseFeedForward(intermediate_size=17920)},
    [(40, "dense")],
    5120,
    100352,
    "bf16",
)
MINIMAX_M2 = _spec(
    "minimax-m2",
    GqaAttention(heads=48, kv_heads=8, head_dim=128),
    {"moe": MoeFeedForward(experts=256, experts_per_token=8, expert_intermediate_size=1536)},
    [(62, "moe")],
    3072,
    200064,
    "fp8_block",
)
