"""Trace files of other projects: units, dates, prefix blocks, rows that are no requests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.replay.formats import load_trace


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_mooncake_is_in_milliseconds_and_blocks_of_512(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1000, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9]},
        {"timestamp": 3000, "input_length": 1300, "output_length": 6, "hash_ids": [7, 8, 10]},
    ]
    t = load_trace(_file(tmp_path, "m.jsonl", "\n".join(json.dumps(r) for r in rows)))
    assert t.arrival_s.tolist() == [0.0, 2.0]
    assert t.block_tokens == 512
    assert t.infinite_cache_hit_rate() == pytest.approx(1024 / 2330)
    assert t.blocks_of(1)[:2].tolist() == t.blocks_of(0)[:2].tolist()


def test_bailian_has_the_same_keys_in_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    row = {"chat_id": 1, "parent_chat_id": -1, "turn": 1, "timestamp": 2.5, "input_length": 40, "output_length": 3}
    text = "\n".join(
        json.dumps(r) for r in (row | {"hash_ids": [1, 2, 3]}, row | {"timestamp": 4.0, "hash_ids": [1, 4, 5]})
    )
    t = load_trace(_file(tmp_path, "b.jsonl", text))
    assert t.arrival_s.tolist() == [0.0, 1.5]
    assert t.block_tokens == 16


def test_azure_dates_with_seven_digits_zones_and_none(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:47.6805900,10,1\r\n2023-11-16 18:15:48,5,0"
    )
    t = load_trace(_file(tmp_path, "a.csv", text))
    assert t.arrival_s.tolist() == pytest.approx([0.0, 1.0])
    assert t.dropped == 1
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2,1\n2024-05-10 00:00:01+00:00,3,1\n"
    )
    assert load_trace(_file(tmp_path, "z.csv", text)).arrival_s.tolist() == pytest.approx([0.0, 0.99007])


def test_burstgpt_both_versions_drop_failures(tmp_path: Path) -> None:
    one = "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n9,GPT-4,5,0\n45,G,1,2\n"
    t = load_trace(_file(tmp_path, "1.csv", one))
    assert t.arrival_s.tolist() == [0.0, 40.0]
    assert t.dropped == 1
    three = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens\n1.5,s,2.0,G,4,6\n"
    assert load_trace(_file(tmp_path, "3.csv", three)).output_tokens.tolist() == [6]


def test_vidur_frontier_and_llmservingsim(tmp_path: Path) -> None:
    t = load_trace(_file(tmp_path, "v.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,2\n0.0,20,3\n"))
    assert t.input_tokens.tolist() == [20, 10]
    text = "arrived_at,num_prefill_tokens,num_decode_tokens,block_hash_ids,session_id\n0,64,2,a|b,s\n1,64,2,a|c,s\n"
    path = _file(tmp_path, "f.csv", text)
    with pytest.raises(InputError, match="block"):
        load_trace(path)
    assert load_trace(path, block_tokens=32).infinite_cache_hit_rate() == pytest.approx(0.25)
    row = {"arrival_time_ns": 2_000_000_000, "input_toks": 4, "output_toks": 2}
    text = json.dumps(row) + "\n" + json.dumps(row | {"arrival_time_ns": 3_000_000_000})
    assert load_trace(_file(tmp_path, "l.jsonl", text)).arrival_s.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("x.csv", "a,b\n1,2\n", "known trace format"),
        ("x.csv", "num_prefill_tokens,num_decode_tokens\n1,2\n", "lengths only"),
        ("x.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n", "at least one request"),
        ("x.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1.5,2\n", "whole number"),
        ("x.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\nsoon,1,2\n", "a number in every row"),
        ("x.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,2\n", "ISO date-time"),
        ("x.jsonl", "[1]\n", "one JSON object"),
        ("x.jsonl", "{", "one JSON object"),
    ],
)
def test_refuses(tmp_path: Path, name: str, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        load_trace(_file(tmp_path, name, text))


def test_written_traces_read_back(tmp_path: Path) -> None:
    from planner.replay.generate import fixed_trace

    t = fixed_trace("long_document_qa", 50, seed=3)
    t.write_jsonl(tmp_path / "t.jsonl")
    back = load_trace(tmp_path / "t.jsonl")
    assert back.input_tokens.tolist() == t.input_tokens.tolist()
    assert np.allclose(back.arrival_s, t.arrival_s - t.arrival_s[0], atol=1e-3)
    assert back.infinite_cache_hit_rate() == pytest.approx(t.infinite_cache_hit_rate())


@pytest.mark.shared
def test_published_files_load(shared: Path) -> None:
    folder = shared / "cases" / "traces"
    if not folder.is_dir():
        pytest.skip("no trace files beside the project")
    files = [p for p in sorted(folder.iterdir()) if p.suffix in (".csv", ".jsonl")]
    for path in files:
        t = load_trace(path)
        assert len(t) >= 3
        assert np.all(np.diff(t.arrival_s) >= 0)
    mooncake = load_trace(folder / "mooncake_fast25_conversation_first200.jsonl")
    assert mooncake.input_tokens[:2].tolist() == [6758, 7322]
    azure = load_trace(folder / "azure_llm_2023_conv_first200.csv")
    assert azure.arrival_s[1] == pytest.approx(4.314579)
