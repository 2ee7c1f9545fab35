"""Fabric tiers of the catalogue's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.errors import InputError
from planner.hardware.fabric import fabric

if TYPE_CHECKING:
    from planner.catalog import Catalog


def test_two_tiers_of_an_h800_node(cat: Catalog) -> None:
    node = cat.node("hgx-h800")
    net = fabric(node, cat.accelerator(node.accelerator))
    assert net.domain == 8
    assert net.tier("scale_up").bandwidth == 200e9
    assert net.tier("network").bandwidth == 50e9
    assert net.tier("network").size_ranks is None


def test_a_rack_is_one_domain(cat: Catalog) -> None:
    node = cat.node("gb200-nvl72")
    assert fabric(node, cat.accelerator(node.accelerator)).domain == 72


def test_pcie_is_the_first_tier_without_a_scale_up_link(cat: Catalog) -> None:
    node = cat.node("l40s-8-pcie")
    net = fabric(node, cat.accelerator(node.accelerator))
    assert net.tiers[0].name == "pcie"
    with pytest.raises(InputError, match="tiers known"):
        net.tier("scale_up")


def test_the_first_tier_is_the_fastest(cat: Catalog) -> None:
    for name in cat.node_ids():
        node = cat.node(name)
        try:
            net = fabric(node, cat.accelerator(node.accelerator))
        except InputError:
            continue  # accelerators without a roofline have no device either (test_device)
        if len(net.tiers) == 2:
            assert net.tiers[0].bandwidth >= net.tiers[1].bandwidth or net.tiers[0].name == "pcie", name
        else:
            assert net.missing, name
