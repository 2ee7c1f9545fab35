"""Pages of the session; each answers one question."""
