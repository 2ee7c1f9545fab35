"""The question: model, hardware, engine, traffic, SLO, objective and prices as a strict schema."""
