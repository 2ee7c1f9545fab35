"""The command line: ``planner`` and ``python -m planner``, one module per group of commands."""

import os

# Before NumPy is loaded: the matrices are small, and threads of BLAS that wait for each other only take time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from planner.cli.app import main, run

__all__ = ["main", "run"]
