"""The forward pass and the pick of the next token."""
