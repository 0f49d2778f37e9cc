"""Real models: what they are, their inputs, the right answers."""
