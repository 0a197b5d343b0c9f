"""Guesses at what comes next, for the model to verify. Knows token ids only."""
