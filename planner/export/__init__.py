"""What leaves the planner: reference pages from its own schemas and docstrings."""
