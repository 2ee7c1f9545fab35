"""Workbooks (.xlsx): a plan with live prices, and a table of scenarios filled in."""
