"""Layouts: parallel layouts of one worker, legality, rank placement, traffic per tier."""
