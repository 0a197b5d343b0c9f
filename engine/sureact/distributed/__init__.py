"""Several processes that hold one model: who has which part, how they add up, how they are started and ended."""
