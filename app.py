"""The planning session in the browser: ``streamlit run app.py``."""

from planner.ui.shell import main

main()
