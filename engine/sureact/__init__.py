"""Tool-using agents on a local model, fully offline, with every tool call valid."""
