from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.cross_origin import CrossOrigin


def scope(method: str = "GET", **headers: str) -> dict[str, Any]:
    return {"method": method, "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]}


def test_only_named_origins_may_read() -> None:
    origins = CrossOrigin("https://a.example, https://b.example")
    assert (b"access-control-allow-origin", b"https://b.example") in origins.headers(scope(origin="https://b.example"))
    for other in (scope(origin="https://c.example"), scope()):
        assert origins.headers(other) == [(b"vary", b"origin")]


def test_all_origins_may_be_let_in() -> None:
    assert dict(CrossOrigin("*").headers(scope(origin="null")))[b"access-control-allow-origin"] == b"null"


def test_a_browser_that_asks_first_is_told() -> None:
    origins = CrossOrigin("https://a.example")
    asks = scope("OPTIONS", origin="https://a.example", access_control_request_method="POST")
    assert origins.is_preflight(asks)
    assert not origins.is_preflight(scope("OPTIONS"))
    assert b"POST" in dict(origins.headers(asks))[b"access-control-allow-methods"]
    assert not CrossOrigin(None).is_preflight(asks)


def test_a_page_that_is_let_in_may_send_the_headers_it_asks_for() -> None:
    names = (
        "authorization, content-type, x-stainless-lang, x-stainless-retry-count"  # as openai's client for JavaScript
    )
    asks = {"access_control_request_method": "POST", "access_control_request_headers": names}
    for allowed, origin in (("https://a.example", "https://a.example"), ("*", "https://b.example")):
        told = dict(CrossOrigin(allowed).headers(scope("OPTIONS", origin=origin, **asks)))
        assert told[b"access-control-allow-headers"] == names.encode()
        assert told[b"vary"] == b"origin, access-control-request-headers"
    told = CrossOrigin("https://a.example").headers(scope("OPTIONS", origin="https://b.example", **asks))
    assert [name for name, _ in told] == [b"vary"]


def test_origins_of_programs_with_pages_are_let_in() -> None:
    named = ("app://obsidian.md", "vscode-webview://0a1b", "null", "https://a.example")
    origins = CrossOrigin("app://obsidian.md, vscode-webview://0a1b, null, https://A.example")
    for origin in named:
        assert (b"access-control-allow-origin", origin.encode()) in origins.headers(scope(origin=origin))


def is_let_in(origins: str | None, method: str = "POST", **headers: str) -> bool:
    try:
        CrossOrigin(origins).check(scope(method, **headers))
    except ApiError as error:
        return error.code != "origin_not_allowed"
    return True


@pytest.mark.parametrize("origins", [None, "https://a.example"])
def test_pages_of_other_sites_may_not_ask(origins: str | None) -> None:
    host = {"host": "localhost:8000"}
    for origin in ("https://evil.example", "null", "http://localhost:9000", "http://localhost"):
        assert not is_let_in(origins, **host, origin=origin)
    for site in ("cross-site", "same-site"):
        assert not is_let_in(origins, **host, sec_fetch_site=site)
        assert not is_let_in(origins, **host, sec_fetch_site=site, origin="https://evil.example")


def test_the_own_page_programs_and_named_origins_may_ask() -> None:
    host = {"host": "localhost:8000"}
    assert is_let_in(None, **host)
    assert is_let_in(None, **host, origin="http://localhost:8000")
    assert is_let_in(None, **host, origin="https://behind.a.proxy", sec_fetch_site="same-origin")
    assert is_let_in("https://a.example", **host, origin="https://a.example", sec_fetch_site="cross-site")
    assert is_let_in("*", **host, origin="null", sec_fetch_site="cross-site")


def test_what_only_reads_may_be_asked_since_no_page_sees_the_answer() -> None:
    assert is_let_in(None, "GET", host="localhost", origin="https://evil.example")
    assert CrossOrigin(None).headers(scope(origin="https://evil.example")) == []
