"""Text to token ids and back, chat templates, stop sequences."""
