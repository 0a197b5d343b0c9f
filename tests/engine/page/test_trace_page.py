import base64
import hashlib
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.engine.server.browser.watched_page import chromium

from sureact.page.trace_page import trace_page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "@@script@@ @@trace@@",
    "\x00\x1b[31m\x7f\x85\u2028\u2029\u202e",
    "\ud800 \udfff",
    "]]> &lt; &amp;",
    'é 🙂 "quoted" \\ back',
]


class Page(html.parser.HTMLParser):
    """What a browser's parser sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, str] = {}
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = f"{tag} {dict(attrs).get('type', '')}"

    def handle_data(self, data: str) -> None:
        self.contents[self._open] = self.contents.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_data_and_nothing_else(text: str) -> None:
    records: list[dict[str, Any]] = [
        {"type": "observation", "run_id": text, "finished": {"observation": text, text: 1}}
    ]
    written = trace_page(records)
    assert written.isascii()
    page, empty = Page(written), Page(trace_page([]))
    assert page.tags == empty.tags
    assert json.loads(page.contents["script application/json"]) == records
    assert page.contents["script "] == empty.contents["script "]


def test_the_page_needs_nothing_but_itself_and_lets_nothing_else_run() -> None:
    text = trace_page([])
    page = Page(text)
    assert not [attrs for _, attrs in page.tags if {"src", "href", "srcset"} & set(attrs)]
    assert "http:" not in text
    assert "https:" not in text
    assert not re.search(r"@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    policy = next(attrs["content"] for tag, attrs in page.tags if tag == "meta" and "http-equiv" in attrs)
    digest = base64.b64encode(hashlib.sha256(page.contents["script "].encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


@pytest.mark.browser
def test_a_browser_lets_its_script_and_its_style_alone_work(tmp_path: Path) -> None:
    finished = {"observation": "<img src=x onerror=alert(1)>", "is_error": True, "is_repeat": False, "tool_s": 0.5}
    file = tmp_path / "trace.html"
    file.write_text(trace_page([{"type": "observation", "run_id": "a", "step": 0, "finished": finished}]))
    faults: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(file.as_uri())
        assert page.locator(".step .text.error").inner_text() == finished["observation"]
        assert page.locator(".step").evaluate("step => getComputedStyle(step).borderRadius") == "8px"
        page.get_by_label("Search").fill("nowhere")
        assert not page.locator(".step").is_visible()
    assert faults == []
