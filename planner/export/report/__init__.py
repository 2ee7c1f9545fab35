"""The report: one content, as Markdown and as a self-contained HTML page."""
