"""Plans and estimates together with the deployments behind them, which further questions about one start from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.search.plan_schema import Estimate, Plan
from planner.search.setup import Setup
from planner.search.sizing import sizing_of
from planner.search.sizing_schema import Sizing
from planner.search.table import Deployments


@dataclass(frozen=True)
class Planned:
    """A plan whose fleets are not sized yet."""

    setup: Setup
    plan: Plan
    listed: tuple[Deployments, ...]
    """Tables of the candidates alone."""
    places: tuple[tuple[int, int], ...]
    """Table in ``listed`` and row of each candidate, best first."""

    def deployment(self, rank: int = 1) -> Deployments:
        """A table of one row: the candidate of that rank (1 is the best)."""
        table, row = self.places[rank - 1]
        return self.listed[table].take(np.array([row]))

    def sizing(self, rank: int = 1) -> Sizing:
        """Size of a candidate over a day, spares for failures, recovery."""
        return sizing_of(self.setup, self.deployment(rank))

    def sized(self, rank: int = 1) -> Plan:
        """The plan with the sizing of one candidate; as it is where there is none."""
        if not self.plan.candidates:
            return self.plan
        found = list(self.plan.candidates)
        found[rank - 1] = found[rank - 1].model_copy(update={"sizing": self.sizing(rank)})
        return self.plan.model_copy(update={"candidates": tuple(found)})

    def with_plan(self, plan: Plan) -> Planned:
        """The same deployments under a plan that says more of them."""
        return replace(self, plan=plan)


@dataclass(frozen=True)
class Estimated:
    """An estimate and the deployment behind it, a table of one row."""

    setup: Setup
    estimate: Estimate
    deployment: Deployments
