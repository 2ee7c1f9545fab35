"""Options that several commands share, and how a layout is read from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXIT_NOT_WRITTEN = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
CatalogOption = Annotated[
    Path | None,
    typer.Option("--catalog", help="Folder of YAML that adds to or replaces the shipped catalogue."),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="File to write.")]
TpOption = Annotated[int, typer.Option("--tp", min=1, help="Tensor-parallel ranks of the attention part.")]
PpOption = Annotated[int, typer.Option("--pp", min=1, help="Pipeline stages.")]
DpOption = Annotated[int, typer.Option("--attention-dp", min=1, help="Attention data-parallel ranks.")]
MoeTpOption = Annotated[
    int | None,
    typer.Option("--moe-tp", min=1, help="Ranks inside one expert; absent means tp * attention_dp / ep."),
]
EpOption = Annotated[int, typer.Option("--ep", min=1, help="Expert-parallel ranks.")]
RedundantOption = Annotated[
    int, typer.Option("--redundant-experts", min=0, help="Replicas of hot experts over the EP group.")
]
