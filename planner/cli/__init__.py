"""The command line: ``planner`` and ``python -m planner``, one module per group of commands."""

from planner.cli.app import main, run

__all__ = ["main", "run"]
