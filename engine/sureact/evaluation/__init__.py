"""Measures engines and agents: what the commands of these names run."""
