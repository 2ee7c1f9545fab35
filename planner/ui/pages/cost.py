"""What does a token cost, and in which way is it cheapest?"""

from __future__ import annotations

from planner.ui.sections import cost_tokens, cost_ways, shown
from planner.ui.sections.cost_data import deployed, power


def show() -> None:
    """The page."""
    subject = shown.shown()
    if subject is None:
        return
    if not subject.feasible:
        shown.nothing_to_price()
        return
    d = deployed(subject)
    watts = power(subject, d)
    cost_tokens.show_prices(subject, d)
    cost_ways.show(subject, d, watts)
    cost_tokens.show_energy(subject, d, watts)
