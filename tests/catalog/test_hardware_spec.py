from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.catalog import Accelerator, Catalog
from planner.catalog.validation import validate
from planner.errors import InputError

GROUPS = ("tflops_dense", "memory", "scale_up", "scale_out_nic", "pcie", "power_w", "chip")


def test_a_value_without_provenance_is_refused() -> None:
    data = {
        "id": "x",
        "name": "X",
        "vendor": "other",
        "arch": "x",
        "tflops_dense": {"bf16": 100},
        "memory": {"type": "HBM", "status": "assumed", "source": "me", "date": "2026-01"},
    }
    with pytest.raises(InputError, match="status, source and date"):
        validate(Accelerator, data, "x.yaml")


def test_every_value_says_where_it_comes_from(cat: Catalog) -> None:
    for id_ in cat.accelerator_ids():
        accelerator = cat.accelerator(id_)
        for name in GROUPS:
            group = getattr(accelerator, name)
            assert group.status or group.note or group.model_dump(exclude_none=True) == {}, (id_, name)


def test_usable_memory_is_what_engines_see(cat: Catalog) -> None:
    # facts/README.md: 79.19, 139.8 and 191.98 GiB visible to the engine.
    for id_, gib in (("h100-sxm", 79.19), ("h200-sxm", 139.8), ("mi300x", 191.98)):
        memory = cat.accelerator(id_).memory
        assert memory.gib_usable == gib
        assert memory.usable_status == "measured"
    for id_ in cat.accelerator_ids():
        memory = cat.accelerator(id_).memory
        if memory.gib_usable is not None and memory.gb_sold is not None:
            assert memory.gib_usable <= memory.gb_sold


def test_what_is_not_sourced_stays_missing(cat: Catalog) -> None:
    assert cat.accelerator("h20-141g").memory.bandwidth_gb_s is None
    assert cat.accelerator("h200-nvl").tflops_dense.bf16 is None
    assert cat.accelerator("ascend-910b2").scale_up.unidirectional_gb_s is None
    assert "bidirectional" not in str(Accelerator.model_json_schema())


def test_racks_are_one_domain(cat: Catalog) -> None:
    for id_ in ("gb200-nvl72", "gb300-nvl72"):
        node = cat.node(id_)
        assert (node.gpus, node.gpus_per_host, node.scale_up.domain) == (72, 4, 72)
        assert node.nics is not None
        assert node.nics.count == 72
    h800 = cat.node("hgx-h800")
    assert (h800.scale_up.unidirectional_gb_s_per_gpu, h800.scale_up.achievable_gb_s) == (200, 160)
    assert h800.nics is not None
    assert h800.nics.achievable_gb_s_per_gpu == 50


def test_nodes_and_their_accelerators_agree(cat: Catalog) -> None:
    for id_ in cat.node_ids():
        node = cat.node(id_)
        link = cat.accelerator(node.accelerator).scale_up
        if node.scale_up.unidirectional_gb_s_per_gpu is not None:
            assert node.scale_up.unidirectional_gb_s_per_gpu == link.unidirectional_gb_s, id_
        for variant in node.accelerator_variants:
            assert variant in cat.accelerator_ids()


def test_catalogue_holds_the_collected_facts(cat: Catalog, shared: Path) -> None:
    facts = yaml.safe_load((shared / "facts" / "hardware.yaml").read_text())["accelerators"]
    assert {f["id"] for f in facts} == set(cat.accelerator_ids())
    for fact in facts:
        accelerator = cat.accelerator(fact["id"])
        for key in ("fp32_vector", "tf32", "bf16", "fp8", "int8", "fp4"):
            assert getattr(accelerator.tflops_dense, key) == fact["tflops_dense"][key], (fact["id"], key)
        assert accelerator.memory.gb_sold == fact["memory"]["gb_sold"]
        assert accelerator.memory.bandwidth_gb_s == fact["memory"]["bandwidth_gb_s"]
        assert accelerator.scale_up.unidirectional_gb_s == fact["scale_up"]["unidirectional_gb_s"]
        assert accelerator.scale_up.domain_size == fact["scale_up"]["domain_size"]
        assert accelerator.scale_out_nic.gbit_s_per_gpu == fact["scale_out_nic"]["gbit_s_per_gpu"]
        assert accelerator.power_w.tdp == fact["power_w"]["tdp"]
    nodes = yaml.safe_load((shared / "facts" / "nodes.yaml").read_text())["nodes"]
    assert {n["id"] for n in nodes} == set(cat.node_ids())
    for fact in nodes:
        assert cat.node(fact["id"]).gpus == fact["gpus"]["count"]
