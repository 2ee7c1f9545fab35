"""Request traces, and the step-by-step replay that checks the closed forms."""
