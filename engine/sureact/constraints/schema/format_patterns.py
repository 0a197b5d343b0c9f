"""Patterns for formats, as far as a regex can tell them.

llguidance 1.9 has grammars of its own for them. Those of dates and times admit days and seconds that do not exist, such
as `0989-02-29` and `10:00:60` at any time of day; the others miss values such as `PT1H5S`, `::ffff:192.0.2.1`,
`"a b"@example.com` or `example.com.`.
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

_AMOUNT = r"[0-9]+(?:[.,][0-9]+)?"
_DAYS = rf"(?:{_AMOUNT}Y(?:{_AMOUNT}M)?(?:{_AMOUNT}D)?|{_AMOUNT}M(?:{_AMOUNT}D)?|{_AMOUNT}D)"
_HOURS = rf"T(?:{_AMOUNT}H(?:{_AMOUNT}M)?(?:{_AMOUNT}S)?|{_AMOUNT}M(?:{_AMOUNT}S)?|{_AMOUNT}S)"
_DURATION = rf"P(?:{_DAYS}(?:{_HOURS})?|{_HOURS}|{_AMOUNT}W)"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}"
_GROUP = "[0-9A-Fa-f]{1,4}"


def _ipv6(num_groups: int, tail: str) -> list[str]:
    """Return the ways to write an address of so many groups and a tail: in full, or with `::` after some groups."""
    ways = [rf"(?:{_GROUP}:){{{num_groups - 1}}}{_GROUP}{tail and ':' + tail}"]
    for before in range(num_groups):
        head = rf"{_GROUP}(?::{_GROUP}){{{before - 1}}}" if before else ""
        after = num_groups - 1 - before
        rest = rf"(?:{_GROUP}:){{0,{after}}}{tail}" if tail else _groups_up_to(after)
        ways.append(f"{head}::{rest}")
    return ways


def _groups_up_to(most: int) -> str:
    return rf"(?:{_GROUP}(?::{_GROUP}){{0,{most - 1}}})?" if most else ""


_IPV6 = f"(?:{'|'.join(_ipv6(8, '') + _ipv6(6, _IPV4))})"

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*\.?"

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = r"\"(?:[ !#-\[\]-~]|\\[ -~])*\""
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
_EMAIL = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_DOMAIN}|\[(?:{_IPV4}|[A-Za-z0-9-]+:[!-Z^-~]+)\])"

_PERCENT = "%[0-9A-Fa-f]{2}"
_HOST_CHAR = rf"(?:[A-Za-z0-9._~!$&'()*+,;=-]|{_PERCENT})"
_PATH_CHAR = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|{_PERCENT})"
_QUERY_CHAR = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|{_PERCENT})"
_USER_CHAR = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|{_PERCENT})"
_LITERAL_HOST = r"\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]"
_AUTHORITY = rf"(?:{_USER_CHAR}*@)?(?:{_LITERAL_HOST}|{_HOST_CHAR}*)(?::[0-9]*)?"
_PATH = rf"(?://{_AUTHORITY}(?:/{_PATH_CHAR}*)*|/?(?:{_PATH_CHAR}+(?:/{_PATH_CHAR}*)*)?)"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*:"
_RELATIVE = rf"{_PATH}(?:\?{_QUERY_CHAR}*)?(?:#{_QUERY_CHAR}*)?"

_POINTER = "(?:/(?:[^/~]|~[01])*)*"

_HEX = "[0-9A-Fa-f]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"

_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
    "uri": f"{_SCHEME}{_RELATIVE}",
    "uri-reference": f"(?:{_SCHEME})?{_RELATIVE}",
    "uuid": _UUID,
}
FORMAT_PATTERNS = {name: f"^(?:{regex})$" for name, regex in _FORMATS.items()}
"""Format name to anchored regex. Leap seconds are left out: the judge knows none."""
INEXACT_FORMATS = frozenset({"duration", "hostname", "uri", "uri-reference", "json-pointer", "relative-json-pointer"})
"""Formats of which the pattern may admit a little that the judge does not, such as a hostname of 300 characters."""
