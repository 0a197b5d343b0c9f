from typing import Any

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
    assert b"authorization" in dict(origins.headers(asks))[b"access-control-allow-headers"]
