import html.parser
import re
from pathlib import Path

import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig

PARTS = ("page/page.css", "page/page.js", "page/icon.svg")


class Page(html.parser.HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture
def page(client: Client) -> Page:
    return Page(client.get("/").text)


def test_the_page_and_its_parts_are_served(client: Client, page: Page) -> None:
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    used = [attrs.get("src") or attrs.get("href") for _, attrs in page.tags if {"src", "href"} & set(attrs)]
    assert sorted(filter(None, used)) == sorted(PARTS)
    for part in PARTS:
        answer = client.get(f"/{part}")
        assert answer.status_code == 200
        assert answer.text


def test_a_part_that_is_not_there_is_an_error_as_json(client: Client) -> None:
    for name in ("nothing.js", "page.html", "trace.js", "..%2fassets.py", "%2e%2e%2f%2e%2e%2ferrors.py"):
        answer = client.get(f"/page/{name}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/", *(f"/{part}" for part in PARTS)])
def test_no_script_but_its_own_runs_and_nothing_is_fetched_from_elsewhere(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert {policy[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert "require-trusted-types-for" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_nothing_of_the_page_stands_inside_of_its_markup(page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag != "style"
        assert tag != "script" or attrs["src"]
        assert not [name for name in attrs if name == "style" or name.startswith("on")]


def test_whatever_can_be_filled_in_has_a_label(client: Client, page: Page) -> None:
    labeled = {attrs["for"] for tag, attrs in page.tags if tag == "label"}
    fields = {attrs["id"] for tag, attrs in page.tags if tag in ("input", "textarea", "select")}
    assert fields <= labeled


def test_ids_are_given_once_and_those_that_are_named_are_there(client: Client, page: Page) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    named = [
        attrs[name]
        for _, attrs in page.tags
        for name in ("for", "aria-controls", "aria-labelledby", "aria-describedby")
        if name in attrs
    ]
    assert set(named) <= set(ids)
    script = client.get("/page/page.js").text
    assert set(re.findall(r'getElementById\("([^"$]+)"\)', script)) <= set(ids)


def test_it_is_open_where_everything_else_needs_a_key(engine: ScriptedEngine, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:key-of-many-characters-1\n")
    client = Client(create_app(AsyncEngine.of(engine), ServerConfig(api_keys=str(keys))))
    assert client.get("/v1/models").status_code == 401
    assert [client.get(path).status_code for path in ("/", "/page/page.js", "/page/nothing")] == [200, 200, 404]


def test_the_documentation_of_the_routes_is_without_it(client: Client) -> None:
    assert not {path for path in client.get("/openapi.json").json()["paths"] if path in ("/", "/page/{name}")}
