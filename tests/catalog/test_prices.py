from __future__ import annotations

import pytest

from planner.catalog import Catalog


def test_rentals_name_catalogue_accelerators(cat: Catalog) -> None:
    prices = cat.prices()
    known = set(cat.accelerator_ids())
    assert {r.accelerator for r in prices.rental_usd_per_gpu_hour} <= known
    assert {t.accelerator for t in prices.tco_usd_per_gpu_hour} <= known
    assert {p.accelerator for p in prices.purchase_usd if p.accelerator} <= known
    assert {a.model_id for a in prices.api_usd_per_mtok if a.model_id} <= set(cat.model_ids())
    assert {s.node for s in prices.services} <= set(cat.node_ids())


@pytest.mark.parametrize(
    ("accelerator", "usd"), [("h100-sxm", 2.95), ("h800-sxm", 2.0), ("mi300x", 1.99), ("b300-sxm", 3.48), ("a10", 1.3)]
)
def test_typical_rent(cat: Catalog, accelerator: str, usd: float) -> None:
    rental = cat.prices().rental(accelerator)
    assert rental is not None
    assert rental.typical_usd_per_gpu_hour() == usd


def test_unpriced_accelerators_stay_unpriced(cat: Catalog) -> None:
    assert cat.prices().rental("ascend-910c") is None
    yuan_only = cat.prices().rental("a800-80g-sxm")
    assert yuan_only is not None
    assert yuan_only.typical_usd_per_gpu_hour() is None


def test_deepseek_day_6_cost_follows_from_its_inputs(cat: Catalog) -> None:
    # DeepSeek open-infra-index day 6: 226.75 nodes x 8 GPUs x 24 h x $2 = $87,072.
    service = next(s for s in cat.prices().services if s.id == "deepseek-day6")
    gpus = service.average_nodes * cat.node(service.node).gpus
    assert gpus * 24 * service.usd_per_gpu_hour == pytest.approx(service.daily_cost_usd)


def test_cost_of_ownership_includes_facility_power(cat: Catalog) -> None:
    tco = cat.prices().tco("gb200-nvl72")
    assert tco is not None
    assert tco.all_in_kw_per_gpu == cat.node("gb200-nvl72").power.all_in_kw_per_gpu
    assert not tco.placeholder
    assert cat.prices().tco("b300-sxm").placeholder  # type: ignore[union-attr]
