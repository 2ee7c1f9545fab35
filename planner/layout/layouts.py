"""Parallel layouts of one worker, as a struct of arrays: a million candidates or one take the same path.

A worker is one engine instance holding one copy of the model. Its GPUs carry the attention part as
pp x attention_dp x tp and the routed experts as pp x ep x moe_tp; both products are the same GPUs:

    gpus = tp * pp * attention_dp = moe_tp * ep * pp
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layouts:
    """Layouts of one worker: int64 arrays of shape (n,), every value at least 1 (0 for redundant experts)."""

    tp: IntArray
    """Tensor-parallel ranks of the attention part (and of dense layers)."""
    pp: IntArray
    """Pipeline stages."""
    attention_dp: IntArray
    """Attention data-parallel ranks inside the worker: each holds its own sequences."""
    moe_tp: IntArray
    """Tensor-parallel ranks inside one expert."""
    ep: IntArray
    """Expert-parallel ranks."""
    redundant_experts: IntArray
    """Replicas of hot experts over the whole EP group; experts + redundant_experts is a multiple of ep."""

    def __post_init__(self) -> None:
        sizes = {f.name: getattr(self, f.name).shape for f in fields(self)}
        if len(set(sizes.values())) != 1 or self.tp.ndim != 1:
            raise InputError("layouts", sizes, "every field is an array of the same shape (n,)")
        for f in fields(self):
            lowest = 0 if f.name == "redundant_experts" else 1
            values = getattr(self, f.name)
            if values.size and int(values.min()) < lowest:
                raise InputError(f"layout.{f.name}", int(values.min()), f"at least {lowest}")
        wrong = np.flatnonzero(self.tp * self.attention_dp != self.moe_tp * self.ep)
        if wrong.size:
            raise InputError(
                "layout",
                self.row(int(wrong[0])),
                "tp * attention_dp and moe_tp * ep are the same GPUs of a pipeline stage and must be equal",
            )

    @classmethod
    def of(
        cls,
        tp: ArrayLike = 1,
        pp: ArrayLike = 1,
        attention_dp: ArrayLike = 1,
        moe_tp: ArrayLike | None = None,
        ep: ArrayLike = 1,
        redundant_experts: ArrayLike = 0,
    ) -> Layouts:
        """Layouts from scalars or arrays that broadcast; ``moe_tp`` defaults to tp * attention_dp / ep.

        Raises InputError where ep does not divide tp * attention_dp or the products differ.
        """
        tp_, dp_, ep_ = (np.atleast_1d(np.asarray(v, dtype=np.int64)) for v in (tp, attention_dp, ep))
        if moe_tp is None:
            stage, wide = np.broadcast_arrays(tp_ * dp_, ep_)
            if np.any(wide < 1):
                raise InputError("layout.ep", int(wide.min()), "at least 1")
            if np.any(stage % wide):
                i = int(np.flatnonzero(stage % wide)[0])
                raise InputError("layout.ep", int(wide[i]), f"a divisor of tp * attention_dp = {int(stage[i])}")
            moe_tp = stage // wide
        given = (tp_, pp, dp_, moe_tp, ep_, redundant_experts)
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=np.int64)) for v in given))
        return cls(*(np.ascontiguousarray(a) for a in arrays))

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> Layouts:
        """Layouts from rows (tp, pp, attention_dp, moe_tp, ep, redundant_experts)."""
        table = np.asarray(list(rows), dtype=np.int64).reshape(-1, len(fields(cls)))
        return cls(*(np.ascontiguousarray(table[:, i]) for i in range(table.shape[1])))

    @classmethod
    def concatenate(cls, parts: Sequence[Layouts]) -> Layouts:
        """The layouts of ``parts`` one after another."""
        return cls(
            *(
                np.concatenate([getattr(p, f.name) for p in parts]) if parts else np.empty(0, np.int64)
                for f in fields(cls)
            )
        )

    @cached_property
    def gpus(self) -> IntArray:
        """GPUs of one worker, (n,)."""
        return self.tp * self.pp * self.attention_dp

    @cached_property
    def stage_gpus(self) -> IntArray:
        """GPUs of one pipeline stage, (n,): tp * attention_dp = moe_tp * ep."""
        return self.tp * self.attention_dp

    def __len__(self) -> int:
        return int(self.tp.size)

    def __iter__(self) -> Iterator[dict[str, int]]:
        return (self.row(i) for i in range(len(self)))

    def take(self, mask: ArrayLike) -> Layouts:
        """Layouts selected by a boolean mask of shape (n,) or by integer positions."""
        chosen = np.asarray(mask)
        if chosen.dtype != np.bool_:
            chosen = chosen.astype(np.int64)
        return Layouts(*(np.ascontiguousarray(getattr(self, f.name)[chosen]) for f in fields(self)))

    def row(self, i: int) -> dict[str, int]:
        """Layout ``i`` as plain integers: the keys of a plan's ``layout``."""
        return {f.name: int(getattr(self, f.name)[i]) for f in fields(self)}

    def describe(self, i: int) -> str:
        """Layout ``i`` in the field's own shorthand, for example ``TP1 DP32 EP32+32`` or ``TP8 PP2``."""
        row = self.row(i)
        parts = [f"TP{row['tp']}"]
        if row["attention_dp"] > 1:
            parts.append(f"DP{row['attention_dp']}")
        if row["ep"] > 1:
            extra = f"+{row['redundant_experts']}" if row["redundant_experts"] else ""
            parts.append(f"EP{row['ep']}{extra}")
        if row["moe_tp"] > 1 and (row["ep"] > 1 or row["attention_dp"] > 1):
            parts.append(f"MoE-TP{row['moe_tp']}")
        if row["pp"] > 1:
            parts.append(f"PP{row['pp']}")
        return " ".join(parts)

    def as_columns(self) -> dict[str, Any]:
        """Name -> array, gpus included; for frames and exports."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"gpus": self.gpus}
