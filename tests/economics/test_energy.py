from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.economics.energy import activity, energy, gpu_power_w, node_power, power_model
from planner.errors import InputError

SHARE = st.floats(0, 1)


def test_measured_points_of_the_h100() -> None:
    """The three anchors of power.yaml: 140 W loaded and idle, 300 W at batch 1, 600 W at batch 128 of 700 W."""
    found = gpu_power_w(700.0, [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], power_model())
    assert found == pytest.approx([140.0, 301.0, 602.0])


@given(SHARE, SHARE, SHARE)
def test_power_grows_with_work_and_stays_below_tdp(busy: float, low: float, more: float) -> None:
    high = min(1.0, low + more)
    model = power_model()
    a, b = gpu_power_w(700.0, busy, [low, high], model)
    assert 0 < a <= b <= 700.0
    assert gpu_power_w(1400.0, busy, low, model) == pytest.approx(2 * a)


def test_activity_saturates() -> None:
    assert activity([0.2, 0.8], [0.3, 0.9]).tolist() == [0.5, 1.0]


def test_provisioned_and_average_are_two_numbers() -> None:
    known = catalog()
    entry = known.node("dgx-h100")
    power = node_power(entry, known.accelerator(entry.accelerator), power_model())
    assert power.rest_provisioned_w == pytest.approx(10_200 / 8 - 700)
    assert power.facility_provisioned_w == pytest.approx(1730)
    assert power.assumptions == ()
    found = energy(8, 1.0, 0.5, 0.0, 1000.0, power, power_model())
    expected = 8 * (700 * 0.645 + 575 / 2) * 1.2
    assert float(found.average_w) == pytest.approx(expected)
    assert float(found.provisioned_w) == pytest.approx(8 * 1730)
    assert float(found.joules_per_output_token) == pytest.approx(expected / 1000)


def test_unknown_node_power_is_said() -> None:
    known = catalog()
    entry = known.node("hgx-h800")
    power = node_power(entry, known.accelerator(entry.accelerator), power_model())
    assert any("maximum power of hgx-h800" in a for a in power.assumptions)
    assert any("PUE" in a for a in power.assumptions)
    assert power.rest_provisioned_w == pytest.approx(0.8 * 700)


def test_unknown_tdp_gives_no_energy() -> None:
    known = catalog()
    entry = known.node("hgx-h20-141g")
    power = node_power(entry, known.accelerator(entry.accelerator), power_model())
    assert np.isnan(energy(8, 1.0, 0.5, 0.0, 1000.0, power, power_model()).average_w)
    assert "no energy is computed" in power.assumptions[0]


def test_no_node_provisions_less_than_it_draws() -> None:
    known = catalog()
    for name in known.node_ids():
        entry = known.node(name)
        power = node_power(entry, known.accelerator(entry.accelerator), power_model())
        if np.isnan(power.tdp_w):
            continue
        found = energy(entry.gpus, 1.0, 1.0, 100.0, 100.0, power, power_model())
        assert found.average_w <= found.provisioned_w, name
        assert found.joules_per_token == pytest.approx(float(found.joules_per_output_token) / 2)


def test_idle_deployments_have_no_joules_per_token() -> None:
    known = catalog()
    power = node_power(known.node("dgx-h100"), known.accelerator("h100-sxm"), power_model())
    found = energy([8, 8], [0.0, 1.0], 0.0, 0.0, [0.0, 10.0], power, power_model())
    assert np.isnan(found.joules_per_output_token[0])
    assert found.joules_per_output_token[1] > 0


def test_refuses_shares_outside_zero_to_one() -> None:
    with pytest.raises(InputError, match="busy"):
        gpu_power_w(700.0, 1.2, 0.5, power_model())
    with pytest.raises(InputError, match="activity"):
        gpu_power_w(700.0, 1.0, -0.1, power_model())


def test_own_power_file_replaces_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.catalog.loader import data_root

    text = (data_root() / "hardware_db" / "power.yaml").read_text(encoding="utf-8")
    (tmp_path / "power.yaml").write_text(text.replace("value: 1.2", "value: 1.5"), encoding="utf-8")
    monkeypatch.setenv("PLANNER_CATALOG_DIR", str(tmp_path))
    assert power_model().pue.value == 1.5
