"""Model names, where their files come from, and pulling them into the store."""
