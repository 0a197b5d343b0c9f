"""A trace as one HTML page that needs nothing but itself: no server, no connection, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from sureact.page.assets import asset

_PLACEHOLDER = re.compile("@@(policy|style|trace|script)@@")
# What could end the element that holds the data, or begin a comment in it.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def trace_page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page that shows the records of a trace.

    The records are data of a script: a tool's text in them can neither end that element nor run, since the page's
    policy names the one script that may, by its hash.
    """
    style, script = asset("look.css", "trace.css"), asset("steps.js", "trace.js")
    parts = {
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "style": style,
        "trace": json.dumps(records).translate(_ESCAPES),
        "script": script,
    }
    # In one go, so that a placeholder inside the trace stays text.
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], asset("trace.html"))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
