"""Options that supply what a file of runs does not say."""

from __future__ import annotations

from typing import Annotated

import typer

ModelOption = Annotated[str | None, typer.Option("--model", help="Model of the runs, where the file does not say.")]
GpuOption = Annotated[str | None, typer.Option("--gpu", help="Accelerator of the runs, where the file does not say.")]
EngineOption = Annotated[str | None, typer.Option("--engine", help="vllm, sglang or trtllm.")]
EngineVersionOption = Annotated[
    str | None, typer.Option("--engine-version", help="Version of the engine, where the file does not say.")
]
PrecisionOption = Annotated[
    str | None, typer.Option("--precision", help="Precision of the weights: bf16, fp8, nvfp4, mxfp4, int4 ...")
]
ConcurrencyOption = Annotated[float | None, typer.Option("--concurrency", min=1, help="Requests in flight.")]
RanksOption = Annotated[int | None, typer.Option(min=1, help="Part of the layout, where the file does not say.")]
