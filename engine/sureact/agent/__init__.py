"""Signatures, tools, prompt formats and the ReAct loop, on any language model."""
