"""A headless Chromium, the page of a server in it, and how a user goes about with it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright
from tests.engine.server.agent_servers import SaltedScript
from tests.engine.server.http_servers import RunningServer

TIMEOUT_MS = 20_000
HOSTILE = "<script>document.title='x'</script><img src=x onerror=alert(1)><b>bold</b>"
VALUE = '{"name": "Ana", "age": 34, "languages": ["pt", "en"]}'
"""Valid under the schema that the page begins with."""


@contextmanager
def chromium() -> Generator[Browser]:
    """Start the Chromium of this machine; playwright's own is never fetched."""
    path = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if path is None:
        pytest.fail("there is no Chromium; scripts/chromium installs it, or set CHROMIUM to one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A page of a server, which must stay at that server and tell no error."""

    def __init__(self, context: BrowserContext, address: str, expected: Collection[int] = ()) -> None:
        """Open the page and wait until it says that the server is ready.

        Args:
            context: where to open it.
            address: of the server.
            expected: statuses of answers that the test asks for, and the browser tells as errors.
        """
        self.page: Page = context.new_page()
        self.address = address
        self.faults: list[str] = []
        self.is_watching = True
        """False from when a test breaks something."""
        self._expected = expected
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("request", lambda request: self._see(request.url))
        self.page.goto(f"{address}/")
        self.page.wait_for_selector("#state[data-state=ready]")

    def check(self) -> None:
        """Fail if anything went wrong so far."""
        assert self.faults == []

    def _hear(self, kind: str, text: str) -> None:
        is_expected = any(f"status of {status} " in text for status in self._expected)
        if self.is_watching and kind in ("error", "warning") and not is_expected:
            self.faults.append(f"{kind}: {text}")

    def _see(self, url: str) -> None:
        if not url.startswith(f"{self.address}/"):
            self.faults.append(f"request of {url}")


def say(page: Page, text: str) -> None:
    """Say something to the model."""
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    """The model's messages."""
    return page.locator(".message:not(.user)")


def ended(page: Page) -> Locator:
    """What is told below answers that have ended."""
    endings = re.compile(r"ended\sby\sitself|stopped|out\sof\stokens|waits\sfor")
    return page.locator("#messages .numbers").filter(has_text=endings)


def open_tab(page: Page, name: str) -> None:
    """Open a tab."""
    page.get_by_role("tab", name=name).click()


def run_agent(watched: WatchedPage, server: RunningServer, script: list[str]) -> Page:
    """Run an agent whose model says the texts of a script."""
    server.serving.lm = SaltedScript(script)
    page = watched.page
    open_tab(page, "Agent")
    page.get_by_role("textbox", name="Question").fill("How much?")
    page.keyboard.press("Enter")
    return page


Open = Callable[..., WatchedPage]
"""Opens the page of a server, a fresh one by default."""
Run = Callable[..., RunningServer]
"""Runs a server with the options given."""
