"""The server's page as a user has it: in Chromium, over a loopback port."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.engine.server.agent_servers import add, fail
from tests.engine.server.browser.watched_page import TIMEOUT_MS, Open, Run, WatchedPage, chromium
from tests.engine.server.http_servers import RunningServer


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """A browser for the tests of a file."""
    expect.set_options(timeout=TIMEOUT_MS)
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, run_server: Run) -> Generator[Open]:
    """Opens the page of a server; at the end it must have asked that server alone, and told no error."""
    opened: list[WatchedPage] = []
    contexts: list[Any] = []

    def open_page(server: RunningServer | None = None, expected: Collection[int] = (), **options: Any) -> WatchedPage:
        contexts.append(browser.new_context(**options))
        opened.append(WatchedPage(contexts[-1], (server or run_server()).address, expected))
        return opened[-1]

    yield open_page
    for watched in opened:
        watched.check()
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: Open) -> Page:
    """The page of a server with the default settings."""
    return open_page().page


def slow() -> str:
    """Take a while."""
    time.sleep(20)
    return "done"


@pytest.fixture
def agents(run_server: Run) -> RunningServer:
    """A server with tools."""
    return run_server(tools=[add, fail, slow])
