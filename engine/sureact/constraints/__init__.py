"""What may come next: choices, JSON schemas, regexes, grammars, Python types."""
