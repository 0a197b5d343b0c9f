"""Patterns for the formats of date and time.

llguidance 1.9 has grammars of its own for them, which admit days and seconds that do not exist: `0989-02-29`, and
`10:00:60` at any time of day.
"""

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # all but 0000
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY_OF_MONTH = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAY_OF_MONTH}|{_LEAP_YEAR}-02-29)"
_OFFSET = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?{_OFFSET}"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}"
_GROUP = "[0-9A-Fa-f]{1,4}"


def _ipv6(num_groups: int, tail: str) -> list[str]:
    """Return the ways to write an address of so many groups and a tail: in full, or with `::` after some groups."""
    written = [f"(?:{_GROUP}:){{{num_groups - 1}}}{_GROUP}{tail and ':' + tail}"]
    for before in range(num_groups):
        most_after = num_groups - 1 - before
        head = f"{_GROUP}(?::{_GROUP}){{{before - 1}}}" if before else ""
        after = f"(?:{_GROUP}:){{0,{most_after}}}{tail}" if tail else _groups_up_to(most_after)
        written.append(f"{head}::{after}")
    return written


def _groups_up_to(most: int) -> str:
    return f"(?:{_GROUP}(?::{_GROUP}){{0,{most - 1}}})?" if most else ""


_IPV6 = f"^(?:{'|'.join(_ipv6(8, '') + _ipv6(6, _IPV4))})$"

FORMAT_PATTERNS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}$",
    "ipv6": _IPV6,
}
"""Format name to anchored regex. Leap seconds are left out: the judge knows none."""

GRAMMAR_FORMATS = frozenset({"duration", "email", "hostname", "ipv4", "uri", "uuid"})
"""Formats that llguidance has a grammar for that is good enough."""
INEXACT_FORMATS = frozenset({"duration", "hostname", "uri"})
"""Formats whose grammar may admit what the judge does not."""
