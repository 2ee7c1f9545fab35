"""Rent, own or API: what is not known is an empty field."""

from planner.ui.sections import cost_ways
from tests.ui.pages.conftest import SMALL


def test_a_price_that_is_not_known_is_an_empty_field(open_page, monkeypatch):
    known = open_page("cost", SMALL)
    field = next(n for n in known.number_input if n.label == "US dollars per GPU, bought")
    assert field.value > 0
    monkeypatch.setattr(cost_ways, "purchase_usd_per_gpu", lambda *_: None)
    app = open_page("cost", SMALL)
    assert not app.exception
    field = next(n for n in app.number_input if n.label == "US dollars per GPU, bought")
    assert field.value is None
    assert any("No purchase price is known" in c.value for c in app.caption)
    field.set_value(30_000.0).run()
    assert not any("No purchase price is known" in c.value for c in app.caption)
