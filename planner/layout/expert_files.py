"""Expert counts as engines dump them, and placements in the formats that engines read.

Counts: JSON with ``logical_count`` or ``expert_load`` (or a bare list), NumPy ``.npy``, and the ``.pt`` file of
SGLang's expert distribution recorder. Placements: SGLang ``--init-expert-location`` (``physical_to_logical_map``), the
expert map of vLLM on Ascend (``layer_list``).

Sources: sglang/srt/eplb/expert_distribution.py (dump of ``logical_count``, (steps, layers, experts)) and
expert_location.py (``physical_to_logical_map``, (layers, slots), or ``logical_count``, from .pt or .json); vllm-ascend
EPLB (``expert_map_path``: moe_layer_count, layer_list, device_list, device_expert); vllm/distributed/eplb/eplb_state.py
(``expert_load`` and ``physical_to_logical_map``, (layers, slots), the same slot order: rank by rank).
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.layout.experts import Placement
from planner.units import MIB

Array = NDArray[np.float64]

COUNT_KEYS = ("logical_count", "expert_load", "counts")
MAX_FILE_BYTES = 1024 * MIB


def read_counts(path: Path) -> Array:
    """Tokens per expert, (layers, experts); a leading axis of recorded steps is summed.

    Raises InputError for a file of another kind, or numbers that are no counts.
    """
    if not path.is_file():
        raise InputError("counts", str(path), "an existing file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError("counts", str(path), f"a file of at most {MAX_FILE_BYTES // MIB} MiB")
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            data: Any = np.load(path, allow_pickle=False)
        elif suffix == ".pt":
            data = _read_torch(path)
        elif suffix == ".json":
            data = json.loads(path.read_text(encoding="utf-8"))
        else:
            raise InputError("counts", path.name, "a file ending in .json, .npy or .pt")
    except (ValueError, EOFError, KeyError, OSError, pickle.UnpicklingError, zipfile.BadZipFile, RecursionError) as e:
        raise InputError("counts", path.name, f"a file that can be read: {e}") from None
    if isinstance(data, dict):
        key = next((k for k in COUNT_KEYS if k in data), None)
        if key is None:
            raise InputError("counts", ", ".join(map(str, data)), f"one of the keys {', '.join(COUNT_KEYS)}")
        data = data[key]
    try:
        counts = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        counts = np.empty(0)
    if counts.ndim == 3:
        counts = counts.sum(axis=0)
    counts = np.atleast_2d(counts)
    if counts.ndim != 2 or not counts.size or not np.isfinite(counts).all() or counts.min() < 0:
        raise InputError(
            "counts", path.name, "counts of at least 0, (experts,), (layers, experts) or (steps, layers, experts)"
        )
    return counts


def sglang_placement(placement: Placement) -> dict[str, Any]:
    """The document for SGLang's ``--init-expert-location FILE.json`` (with ``--ep-num-redundant-experts``)."""
    return {"physical_to_logical_map": placement.physical_to_logical.tolist()}


def vllm_placement(placement: Placement) -> dict[str, Any]:
    """The expert map that vLLM on Ascend reads (``expert_map_path``): experts of every device, layer by layer."""
    table = placement.physical_to_logical.reshape(placement.layers, placement.ranks, -1)
    return {
        "moe_layer_count": placement.layers,
        "layer_list": [
            {
                "layer_id": layer,
                "device_count": placement.ranks,
                "device_list": [
                    {"device_id": rank, "device_expert": experts.tolist()} for rank, experts in enumerate(table[layer])
                ],
            }
            for layer in range(placement.layers)
        ],
    }


PLACEMENT_FORMATS = {"sglang": sglang_placement, "vllm": vllm_placement}


def write_placement(placement: Placement, path: Path, engine: str) -> None:
    """Writes a placement as JSON for an engine of PLACEMENT_FORMATS."""
    if engine not in PLACEMENT_FORMATS:
        raise InputError("format", engine, f"one of {', '.join(PLACEMENT_FORMATS)}")
    path.write_text(json.dumps(PLACEMENT_FORMATS[engine](placement)) + "\n", encoding="utf-8")


_DTYPES = {
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
}


class _Storage:
    """Stands for torch's storage classes in a pickle: only the name of the number type."""

    def __init__(self, name: str) -> None:
        self.name = name


class _TensorReader(pickle.Unpickler):
    """Reads tensors and plain containers of a torch file, and nothing else: every other global is refused."""

    def __init__(self, stream: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(stream)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in _DTYPES:
            return _Storage(name)
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of counts")

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, *_ = pid
        raw = self._archive.read(f"{self._folder}/data/{key}")
        return np.frombuffer(raw, dtype=_DTYPES[kind.name])


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Any:
    """A tensor's numbers; bounds are checked, since offsets and strides come from the file."""
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if offset < 0 or min((*size, *stride, 1)) < 0 or reach > storage.size:
        raise pickle.UnpicklingError("a tensor that reaches beyond its storage")
    steps = tuple(s * storage.itemsize for s in stride)
    return np.lib.stride_tricks.as_strided(storage[offset:], size, steps).copy()


def _read_torch(path: Path) -> Any:
    """The object in a ``torch.save`` file (zip format of torch 1.6 and later), tensors as arrays."""
    with zipfile.ZipFile(path) as archive:
        inner = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
        with archive.open(inner) as stream:
            return _TensorReader(stream, archive, inner.removesuffix("/data.pkl")).load()
