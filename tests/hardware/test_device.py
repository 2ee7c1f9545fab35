"""Accelerators resolved into SI units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.errors import InputError
from planner.hardware.device import device

if TYPE_CHECKING:
    from planner.catalog import Catalog


def test_units_are_si(cat: Catalog) -> None:
    h200 = device(cat.accelerator("h200-sxm"))
    assert h200.peak("bf16") == 989e12
    assert h200.mem_bw == 4800e9
    assert h200.link_bw == 450e9
    assert h200.nic_bw == 400e9 / 8
    assert h200.mem_bytes == pytest.approx(139.8 * 2**30, rel=0.01)


def test_what_is_not_sourced_stays_missing(cat: Catalog) -> None:
    a100 = device(cat.accelerator("a100-80g-sxm"))
    assert "tflops_dense.fp8" in a100.missing
    with pytest.raises(InputError, match="dense peaks known"):
        a100.peak("fp8")


@pytest.mark.parametrize("name", ["h20-141g", "h200-nvl", "ascend-910b4"])
def test_no_roofline_without_peak_or_bandwidth(cat: Catalog, name: str) -> None:
    with pytest.raises(InputError, match=name):
        device(cat.accelerator(name))


def test_every_other_accelerator_resolves(cat: Catalog) -> None:
    without = {"h20-141g", "h200-nvl", "ascend-910b1", "ascend-910b4"}
    for name in set(cat.accelerator_ids()) - without:
        assert device(cat.accelerator(name)).mem_bw > 1e11


def test_a_node_brings_its_own_links_and_nics(cat: Catalog) -> None:
    pcie = device(cat.accelerator("l40s"), cat.node("l40s-8-pcie"))
    assert pcie.link_bw is None
    node = cat.node("hgx-h800")
    assert node.nics is not None
    assert node.nics.count is not None
    assert node.nics.gbit_s is not None
    assert device(cat.accelerator("h800-sxm"), node).nic_bw == node.nics.count * node.nics.gbit_s / 8 * 1e9 / node.gpus


def test_an_accelerator_without_a_needed_figure_is_a_sentence(cat: Catalog) -> None:
    with pytest.raises(InputError, match="one whose bandwidth_gb_s is known") as caught:
        device(cat.accelerator("h20-141g"))
    assert "None" not in str(caught.value)
