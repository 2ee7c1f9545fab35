"""Counts that engines dump, placements that engines read."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.layout.expert_files import read_counts, sglang_placement, vllm_placement, write_placement
from planner.layout.experts import place_experts

COUNTS = np.array([[4, 3, 2, 1], [1, 1, 1, 5]])


def _torch_file(path: Path, counts: np.ndarray, function: str = "_rebuild_tensor_v2") -> Path:
    """A zip of a hand-written protocol-2 pickle: {'logical_count': tensor} with the numbers as raw int64."""
    steps, layers, experts = counts.shape
    out = io.BytesIO()
    out.write(b"\x80\x02}")
    out.write(b"X\x0d\x00\x00\x00logical_count")
    out.write(f"ctorch._utils\n{function}\n".encode())
    out.write(b"(")
    out.write(b"(X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu")
    out.write(b"M" + counts.size.to_bytes(2, "little") + b"tQ")
    out.write(b"K\x00")
    out.write(b"(" + b"".join(b"K" + bytes([n]) for n in (steps, layers, experts)) + b"t")
    out.write(b"(" + b"".join(b"K" + bytes([n]) for n in (layers * experts, experts, 1)) + b"t")
    out.write(b"\x89N")
    out.write(b"tR")
    out.write(b"s.")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", out.getvalue())
        archive.writestr("archive/data/0", counts.astype("<i8").tobytes())
    return path


def test_reads_json_and_npy(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    path.write_text(json.dumps({"logical_count": COUNTS.tolist()}))
    assert read_counts(path).tolist() == COUNTS.tolist()
    path.write_text(json.dumps({"logical_count": [COUNTS.tolist(), COUNTS.tolist()]}))
    assert read_counts(path).tolist() == (2 * COUNTS).tolist()
    path.write_text(json.dumps(COUNTS[0].tolist()))
    assert read_counts(path).tolist() == [COUNTS[0].tolist()]
    np.save(tmp_path / "counts.npy", COUNTS)
    assert read_counts(tmp_path / "counts.npy").tolist() == COUNTS.tolist()


def test_reads_a_torch_file_without_torch(tmp_path: Path) -> None:
    path = _torch_file(tmp_path / "counts.pt", np.stack([COUNTS, 3 * COUNTS]))
    assert read_counts(path).tolist() == (4 * COUNTS).tolist()


def test_refuses_other_globals_in_a_torch_file(tmp_path: Path) -> None:
    path = _torch_file(tmp_path / "counts.pt", np.stack([COUNTS]), function="_rebuild_parameter")
    with pytest.raises(InputError, match="not allowed"):
        read_counts(path)


@pytest.mark.parametrize("text", ['{"other": 1}', "[[1, -1]]", '[["a"]]', "{", "[]", "[[1, 2], [3]]"])
def test_refuses_what_are_no_counts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(text)
    with pytest.raises(InputError):
        read_counts(path)


def test_placements_name_every_slot(tmp_path: Path) -> None:
    p = place_experts(COUNTS, ranks=3, redundant=2)
    table = sglang_placement(p)["physical_to_logical_map"]
    assert np.shape(table) == (2, 6)
    document = vllm_placement(p)
    assert document["moe_layer_count"] == 2
    devices = document["layer_list"][1]["device_list"]
    assert [d["device_id"] for d in devices] == [0, 1, 2]
    assert [e for d in devices for e in d["device_expert"]] == table[1]
    write_placement(p, tmp_path / "map.json", "sglang")
    assert json.loads((tmp_path / "map.json").read_text())["physical_to_logical_map"] == table
    with pytest.raises(InputError):
        write_placement(p, tmp_path / "map.json", "other")
