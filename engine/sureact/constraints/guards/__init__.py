"""Guards: they follow a JSON value as it is written and refuse what would spoil it for good."""
