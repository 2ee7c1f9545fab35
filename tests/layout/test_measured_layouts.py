"""Every layout that was measured must be one that the rules allow: a rule that forbids a real run is wrong."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from planner.catalog import catalog
from planner.layout.layouts import Layouts
from planner.layout.legality import legal
from planner.layout.node_shape import NodeShape

KEYS = ("tp", "pp", "attention_dp", "moe_tp", "ep")
# Formats of the table in the catalogue's names; per-tensor formats have no block to align to.
FORMATS = {"fp8-block128": "fp8_block", "fp8": "fp8_tensor", "nvfp4": "nvfp4", "bf16": "bf16", "mxfp4": "mxfp4"}
# The table records experts cut in 32 for these five rows: a shard of 64 columns, which SGLang refuses to load in block
# fp8 (issue 3345). Whole experts on the same 32 GPUs, as its other rows record, are legal.
NOT_AS_RECORDED = (
    "sglang",
    "deepseek-ai/DeepSeek-V3",
    "gb200-nvl72",
    "TP1 DP32 MoE-TP32",
    "an expert shard is 64 wide, not a multiple of the quantisation block 128",
)


def test_measured_runs_are_legal(shared: Path) -> None:
    known = catalog()
    specs = {s.hf_id.lower(): s for s in map(known.model, known.model_ids()) if s.hf_id}
    domains = {n.accelerator: n for n in map(known.node, known.node_ids())}
    refused: Counter[tuple[str, ...]] = Counter()
    judged = 0
    for row in csv.DictReader((shared / "measured" / "e2e_runs.csv").open(encoding="utf-8")):
        prefixes = ("",) if row["serving"] == "agg" else ("prefill_", "decode_")
        if not row["linear_precision"] or any(not row[p + k] for p in prefixes for k in KEYS):
            continue
        spec = specs.get(row["model"].lower())
        if spec is None:
            continue  # a few models of the table are not in the catalogue
        moe = FORMATS.get(row["moe_precision"] or row["linear_precision"], "bf16")
        precision = {"default": FORMATS.get(row["linear_precision"], "bf16"), "routed_experts": moe}
        node = domains.get(row["gpu"])
        gpus, domain = (node.gpus, node.scale_up.domain) if node is not None else (8, 8)
        shape = NodeShape(row["gpu"], gpus, domain or 1)
        for prefix in prefixes:
            values = {k: int(row[prefix + k]) for k in KEYS}
            experts = [f.experts for f in spec.feed_forwards.values() if f.kind == "moe"]
            if experts:
                extra = -experts[0] % values["ep"] if values["ep"] > 1 else 0
                layout = Layouts.of(**values, redundant_experts=extra)
            else:  # expert columns of dense rows carry no meaning
                layout = Layouts.of(tp=values["tp"], pp=values["pp"])
            mask, reasons = legal(spec, layout, shape, row["engine"], precision, tp_across_nodes=True)
            judged += 1
            if not mask[0]:
                refused[(row["engine"], row["model"], row["gpu"], layout.describe(0), reasons.sentence(0))] += 1
    assert judged > 900
    assert set(refused) == {NOT_AS_RECORDED}, refused
