"""The planning session in the browser. ``app.py`` starts it; nothing outside this package imports Streamlit or
Plotly.

``figures`` and ``draft`` are plain functions of a plan or a scenario; ``sidebar``, ``sections`` and ``pages`` put
them on screen; ``state`` holds the one scenario that all pages share.
"""
