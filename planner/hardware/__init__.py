"""Accelerators in SI units, the fabric between them, and the fitted efficiency curves of their operators."""
