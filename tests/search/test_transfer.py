"""KV transfers of planned deployments: bytes, links, overlap, unequal GPUs, and the replay beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.catalog.loader import catalog
from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.layout.layouts import Layouts
from planner.model.kv import kv_bytes_per_token
from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, KvTransfer
from planner.search.planning import plan
from planner.search.replays import replay_scenario
from planner.search.setup import setup
from planner.search.table import Workers
from planner.search.transfer import links, sent_layers, transfer_sentences
from planner.units import MIB

EXAMPLES = Path(__file__).parents[2] / "examples"


def scenario(
    prefill: str = "dgx-h100", decode: str = "dgx-h200", tokens: int = 2000, rate: float = 8.0, **options: Any
) -> Scenario:
    data = load_scenario(EXAMPLES / "llama-3.3-70b-mi300x.yaml").to_dict()
    data["hardware"] = {"pools": {"prefill": [{"node": prefill}], "decode": [{"node": decode}]}}
    data["search"]["serving"] = ["disagg"]
    data["workload"] |= {
        "input_tokens": {"kind": "fixed", "tokens": tokens},
        "output_tokens": {"kind": "fixed", "tokens": 200},
        "arrival": {"kind": "poisson", "rate_rps": rate},
        "prefix_hit_rate": 0.0,
    }
    data["engine"]["options"] |= options
    data["slo"] = {}
    data["economics"] = {}
    return Scenario.from_dict(data)


def best(question: Scenario) -> Candidate:
    found = plan(question).best
    assert found is not None
    assert found.kv_transfer is not None
    return found


def workers(question: Scenario, node: str, layout: Layouts) -> Workers:
    s = setup(question, catalog())
    pools = question.hardware.pools
    assert pools is not None
    hw = s.hardware(next(c for c in (*pools.prefill, *pools.decode) if c.node == node))
    n, off = len(layout), np.zeros(len(layout), dtype=bool)
    ones = np.ones(n, dtype=np.int64)
    return Workers(hw, layout, np.ones(n), 8192 * ones, off, off, ones)


def test_every_byte_of_the_cache_moves_once() -> None:
    """Llama 3.3 70B: 2 x 8 heads x 128 values x 80 layers of 2 bytes are 320 KiB a token; a stage sends its layers."""
    question = scenario()
    s = setup(question, catalog())
    token = float(kv_bytes_per_token(s.spec, s.precision.kv))
    two = Layouts.of(tp=[4, 4], pp=[1, 2])
    found = links(s, workers(question, "dgx-h100", two), workers(question, "dgx-h200", Layouts.of(tp=[8, 8])))
    assert found.size_bytes == pytest.approx([2000 * token] * 2)
    assert found.send_s[1] == pytest.approx(0.5 * found.send_s[0], rel=0.01)
    assert found.receive_s[0] < found.send_s[0]  # TP8 takes half as much on each GPU
    assert found.across.all()


@pytest.mark.parametrize(
    ("prefill_tp", "decode_tp", "sent", "taken"),
    [
        (1, 8, 8, 1),  # one prefill rank serves eight decode ranks, each of which holds the latent whole
        (4, 8, 2, 1),
        (8, 8, 1, 1),
        (8, 2, 1, 1),  # six of eight prefill ranks sit out
        (8, 1, 1, 1),
    ],
)
def test_a_latent_crosses_once_for_each_decode_rank(prefill_tp: int, decode_tp: int, sent: int, taken: int) -> None:
    """DeepSeek-V3, 70,272 bytes a token; who reads from whom as in vLLM's, SGLang's and TensorRT-LLM's connectors."""
    question = Scenario.from_dict(scenario().to_dict() | {"model": "deepseek-v3"})
    s = setup(question, catalog())
    one = links(s, *(workers(question, node, Layouts.of(tp=1)) for node in ("dgx-h100", "dgx-h200")))
    pools = (("dgx-h100", prefill_tp), ("dgx-h200", decode_tp))
    found = links(s, *(workers(question, node, Layouts.of(tp=tp)) for node, tp in pools))
    assert found.size_bytes == pytest.approx([2000 * 70_272])
    assert found.copies == pytest.approx([decode_tp])
    assert found.send_s == pytest.approx(sent * one.send_s)
    assert found.receive_s == pytest.approx(taken * one.receive_s)


@pytest.mark.parametrize(
    ("prefill_tp", "decode_tp", "copies", "sent"),
    [(4, 8, 1, 2 / 8), (8, 4, 1, 1 / 8), (8, 16, 2, 2 / 8), (16, 4, 1, 1 / 8)],
)
def test_heads_cross_once_unless_decode_ranks_share_them(
    prefill_tp: int, decode_tp: int, copies: int, sent: float
) -> None:
    """Eight KV heads; ``sent`` is the part of the cache that the busiest prefill GPU sends."""
    question = scenario()
    s = setup(question, catalog())
    one = links(s, *(workers(question, node, Layouts.of(tp=1)) for node in ("dgx-h100", "dgx-h200")))
    pools = (("dgx-h100", prefill_tp), ("dgx-h200", decode_tp))
    found = links(s, *(workers(question, node, Layouts.of(tp=tp)) for node, tp in pools))
    assert found.copies == pytest.approx([copies])
    assert found.send_s == pytest.approx(sent * one.send_s)


def test_the_plan_says_how_often_the_cache_crosses() -> None:
    found = KvTransfer(
        mib=268.1, copies=8.0, link="network", overlapped=False, whole_ms=8.8, wait_ms=1.4, exposed_ms=10.2,
        send_utilisation=0.02, receive_utilisation=0.01,
    )  # fmt: skip
    (many,) = transfer_sentences(found)
    assert many.startswith(
        "A prompt's KV cache of 268 MiB moves over the network 8 times, once for each decode rank that holds it, in 8.8"
    )
    (once,) = transfer_sentences(found.model_copy(update={"copies": 1.0}))
    assert once.startswith("A prompt's KV cache of 268 MiB moves over the network in 8.8 ms")


@pytest.mark.parametrize(
    ("prefill", "decode", "counts", "near"),
    [
        ("dgx-h200", "dgx-h200", (1, 1), True),
        ("dgx-h200", "dgx-h200", (1, 2), False),  # the third worker stands on another node
        ("dgx-h100", "dgx-h200", (1, 1), False),
    ],
)
def test_the_scale_up_link_is_taken_where_both_pools_stand_in_one_domain(
    prefill: str, decode: str, counts: tuple[int, int], near: bool
) -> None:
    """Workers of four GPUs, two of which fill a node of eight."""
    question = scenario(prefill, decode)
    pools = [workers(question, node, Layouts.of(tp=4)) for node in (prefill, decode)]
    p, d = (replace(pool, count=np.array([n])) for pool, n in zip(pools, counts, strict=True))
    data = question.to_dict()
    data["hardware"] = {"candidates": [{"node": prefill}]}
    s = setup(Scenario.from_dict(data), catalog())
    found = links(s, p, d)
    assert not found.across[0] if near else found.across[0]
    assert links(setup(question, catalog()), p, d).across[0]  # hardware kept for each pool: no node has both
    slow = links(s, p, d, np.array([True]))
    assert found.send_s[0] < slow.send_s[0] if near else found.send_s[0] == slow.send_s[0]


def test_overlap_hides_all_but_the_last_layer() -> None:
    plain, overlapped = best(scenario()), best(scenario(kv_transfer_overlap=True))
    assert plain.kv_transfer is not None
    assert overlapped.kv_transfer is not None
    assert plain.kv_transfer.exposed_ms >= plain.kv_transfer.whole_ms
    assert overlapped.kv_transfer.overlapped
    assert overlapped.kv_transfer.exposed_ms < 0.2 * plain.kv_transfer.exposed_ms
    s = setup(scenario(kv_transfer_overlap=True), catalog())
    assert sent_layers(s, s.hardware(s.scenario.hardware.pools.prefill[0])) == 80  # type: ignore[union-attr]


def test_unequal_gpus_from_plan_to_launch_script_and_replay() -> None:
    """Prefill on H100, decode on H200: both pools in plan, script and replay; times agree."""
    question = scenario()
    answer = plan(question)
    c = best(question)
    assert c.prefill_pool is not None
    assert c.decode_pool is not None
    assert (c.prefill_pool.node, c.decode_pool.node) == ("dgx-h100", "dgx-h200")
    assert c.kv_transfer is not None
    assert c.kv_transfer.link == "network"
    assert c.kv_transfer.mib == pytest.approx(2000 * 327_680 / MIB, rel=0.01)
    assert any("KV cache of" in sentence for sentence in c.explanation)
    script = launch_script(deployment(answer), "vllm")
    pool = c.prefill_pool
    assert f"prefill on dgx-h100: {pool.workers} workers of {pool.layout.gpus} GPUs share one host" in script
    assert f"1 worker of {c.decode_pool.gpus} GPUs, on 1 host of dgx-h200" in script
    replayed = replay_scenario(question, requests=6000, candidate=c).replayed.summary()
    assert c.ttft_ms.mean == pytest.approx(replayed["ttft_ms"]["mean"], rel=0.15)
    assert c.tbt_ms.p50 == pytest.approx(replayed["tbt_ms"]["p50"], rel=0.08)


def test_a_replay_shows_the_transfer_that_the_plan_shows() -> None:
    """One candidate at a third of its load with and without overlap: the means differ by a transfer that finds its
    links free, but for the last layer."""
    c = best(scenario(tokens=8000))
    assert c.kv_transfer is not None
    hidden, plain = (scenario(tokens=8000, rate=2.5, kv_transfer_overlap=overlap) for overlap in (True, False))
    slow, fast = (replay_scenario(q, requests=2000, candidate=c).replayed.summary() for q in (plain, hidden))
    shown = slow["ttft_ms"]["mean"] - fast["ttft_ms"]["mean"]
    assert shown == pytest.approx(c.kv_transfer.exposed_ms - c.kv_transfer.wait_ms, rel=0.15)
