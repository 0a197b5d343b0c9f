"""A trace as one HTML page that needs nothing but itself: no server, no connection, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

_PLACEHOLDER = re.compile("@@(policy|trace|script)@@")
# What could end the element that holds the data, or begin a comment in it.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def trace_page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page that shows the records of a trace.

    The records are data of a script: a tool's text in them can neither end that element nor run, since the page's
    policy names the one script that may, by its hash.
    """
    script = _packaged("trace_page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{digest}'",
        "trace": json.dumps(records).translate(_ESCAPES),
        "script": script,
    }
    # In one go, so that a placeholder inside the trace stays text.
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], _packaged("trace_page.html"))


def _packaged(name: str) -> str:
    return files("sureact.cli").joinpath(name).read_text(encoding="utf-8")
