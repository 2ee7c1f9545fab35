"""The planning session in the browser: ``streamlit run app.py``."""

import os

# Before NumPy is loaded: the matrices are small, and threads of BLAS that wait for each other only take time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from planner.ui.shell import main

main()
