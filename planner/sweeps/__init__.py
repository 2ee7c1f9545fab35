"""Fleets of scenarios: grids, any executor, results that survive an interruption."""
