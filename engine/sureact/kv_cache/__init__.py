"""Memory for keys and values: blocks, who holds them, and the tensors."""
