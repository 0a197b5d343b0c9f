"""Text that cannot steer a terminal."""

# Control characters become their visible pictures; those that have none, the replacement character.
_PICTURES = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"},
    127: 0x2421,
    **dict.fromkeys(range(128, 160), 0xFFFD),
}


def visible(text: str) -> str:
    """Return a text with control characters, but for tab and newline, made visible."""
    return text.translate(_PICTURES)
