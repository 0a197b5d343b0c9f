import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.server.conftest import Client, read_events
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.gate import BRIEF, COMPUTING
from sureact.server.server_config import ServerConfig

KEY = "a-key-of-team-a-0001"
OTHER = "a-key-of-team-b-0002"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
Serve = Callable[..., Client]


@pytest.fixture
def serve(engine: ScriptedEngine, tmp_path: Path) -> Serve:
    """Makes servers; with keys, as lines of their file."""

    def make(*keys: str, **options: Any) -> Client:
        if keys:
            path = tmp_path / "keys"
            path.write_text("\n".join(keys))
            options["api_keys"] = str(path)
        return Client(create_app(AsyncEngine.of(engine), ServerConfig(served_model_name="tiny", **options)))

    return make


def ask(client: Client, key: str | None = KEY, **fields: Any) -> Any:
    headers = {} if key is None else {"authorization": f"Bearer {key}".encode("latin-1")}
    return client.post("/v1/chat/completions", {**CHAT, **fields}, headers=headers)


def test_a_key_is_needed(serve: Serve, engine: ScriptedEngine) -> None:
    client = serve(f"a:{KEY}")
    engine.say("ok")
    assert ask(client).status_code == 200
    for key, code in ((None, "missing_api_key"), ("x" * 20, "invalid_api_key"), (KEY + "\xe9", "invalid_api_key")):
        response = ask(client, key)
        assert (response.status_code, response.json()["error"]["code"]) == (401, code)
        assert response.json()["error"]["type"] == "authentication_error"
        assert response.headers["www-authenticate"] == "Bearer"
    for path in ("/v1/models", "/metrics", "/nowhere"):
        assert client.get(path).status_code == 401
    for path in ("/health", "/ready", "/openapi.json"):
        assert client.get(path).status_code != 401


def test_probes_may_call_the_server_by_any_name(serve: Serve) -> None:
    client = serve(f"a:{KEY}", allowed_hosts="llm.example", public_metrics=True)
    for name in ("sureact.default.svc:8000", "10.42.0.7:8000"):
        for path in ("/health", "/ready"):
            assert client.get(path, headers={"host": name}).json()["status"] in ("alive", "not ready")
    for path in ("/metrics", "/openapi.json", "/"):
        assert client.get(path, headers={"host": "sureact.default.svc"}).json()["error"]["code"] == "unknown_host"
        assert client.get(path, headers={"host": "10.42.0.7:8000"}).status_code == 200


def test_metrics_may_be_public(serve: Serve) -> None:
    assert serve(f"a:{KEY}", public_metrics=True).get("/metrics").status_code == 200


def test_a_key_that_asks_too_often_is_told_when_to_come_back(serve: Serve, engine: ScriptedEngine) -> None:
    client = serve(f"a:{KEY} rpm=1", f"b:{OTHER}")
    engine.say("ok")
    assert ask(client).status_code == 200
    response = ask(client)
    assert (response.status_code, response.json()["error"]["type"]) == (429, "rate_limit_error")
    assert 0 < int(response.headers["retry-after"]) <= 60
    assert ask(client, OTHER).status_code == 200


def test_keys_share_no_cached_prompts(serve: Serve, engine: ScriptedEngine) -> None:
    client = serve(f"a:{KEY}", f"b:{OTHER}")
    engine.say("ok")
    messages = [{"role": "user", "content": "A secret of the first key. " * 40}]

    def cached(key: str) -> int:
        usage = ask(client, key, messages=messages).json()["usage"]
        assert usage["prompt_tokens"] > 256
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert cached(KEY) == 0
    assert cached(OTHER) == 0
    assert cached(KEY) > 0
    assert cached(OTHER) > 0


def test_a_full_server_sends_away(serve: Serve, engine: ScriptedEngine) -> None:
    client = serve(max_running=1, max_queued=0)
    serving = client.app.state.serving
    engine.say("ok")
    seat = serving.admission.enter(None)
    response = ask(client, None)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "overloaded")
    assert response.headers["retry-after"]
    seat.leave()
    assert ask(client, None).status_code == 200
    assert serving.admission.num_entered == 0


@pytest.mark.parametrize("path", sorted(BRIEF))
def test_what_decodes_nothing_has_few_seats_of_its_own(serve: Serve, path: str) -> None:
    client = serve(max_running=1, max_queued=0)
    serving = client.app.state.serving
    body = {
        "/tokenize": {"prompt": "a"},
        "/detokenize": {"tokens": [97]},
        "/validate": {"response_format": {"type": "json_object"}},
    }[path]
    answering = serving.admission.enter(None)
    assert client.post(path, body).status_code == 200
    seats = [serving.brief_admission.enter(None) for _ in range(4)]
    response = client.post(path, body)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "overloaded")
    for seat in (answering, *seats):
        seat.leave()
    assert client.post(path, body).status_code == 200
    assert serving.brief_admission.num_entered == 0
    assert 'e2e_request_latency_seconds_count{model_name="tiny"} 0.0' in client.get("/metrics").text


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_ends_after_its_time(serve: Serve, stream: bool) -> None:
    client = serve(request_timeout_s=0.2)
    fields = {"ignore_eos": True, "max_tokens": 3500, "chat_template_kwargs": {"enable_thinking": False}}
    response = ask(client, None, stream=stream, **fields)
    if stream:
        assert read_events(response.text)[-1]["error"]["code"] == "request_timeout"
    else:
        assert (response.status_code, response.json()["error"]["code"]) == (504, "request_timeout")
    assert client.app.state.serving.admission.num_entered == 0
    told = client.get("/metrics").text
    assert 'vllm:request_success_total{finished_reason="abort",model_name="tiny"} 1.0' in told
    assert 'e2e_request_latency_seconds_count{model_name="tiny"} 0.0' in told


def test_a_server_that_ends_is_alive_but_not_ready(serve: Serve) -> None:
    client = serve()
    client.app.state.serving.admission.is_draining = True
    response = ask(client, None)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "shutting_down")
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503


def test_a_request_keeps_its_name(serve: Serve) -> None:
    client = serve()
    given = client.post("/tokenize", {"prompt": "a"}, headers={"x-request-id": "job-7"})
    assert given.headers["x-request-id"] == "job-7"
    for name in ("a b", "x" * 200, '"'):
        assert client.post("/tokenize", {"prompt": "a"}, headers={"x-request-id": name}).headers["x-request-id"] != name
    assert client.get("/nowhere").headers["x-request-id"]


def test_the_log_tells_of_requests_without_their_prompts(
    serve: Serve, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(f"team-a:{KEY}")
    engine.say("ok")
    with caplog.at_level(logging.INFO, "sureact.requests"):
        ask(client, messages=[{"role": "user", "content": "my secret"}])
        ask(client, nonsense=1)
        client.get("/health")
    first, second = (json.loads(entry.getMessage()) for entry in caplog.records if entry.name == "sureact.requests")
    assert {name: first[name] for name in ("key", "model", "status", "path", "method")} == {
        "key": "team-a",
        "model": "tiny",
        "status": 200,
        "path": "/v1/chat/completions",
        "method": "POST",
    }
    assert first["completion_tokens"] > 0
    assert first["finish_reasons"] == ["stop"]
    assert first["seconds"] >= first["queue_seconds"] >= 0
    assert (second["status"], second["error"]) == (400, "unknown_parameter")
    assert "my secret" not in caplog.text
    assert KEY not in caplog.text


def test_the_log_tells_prompts_if_asked(serve: Serve, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture) -> None:
    engine.say("ok")
    with caplog.at_level(logging.INFO, "sureact.requests"):
        ask(serve(log_prompts=True), None)
    assert json.loads(caplog.records[-1].getMessage())["body"]["messages"][0]["content"] == "hi"


def test_the_log_can_be_off(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sureact.requests"):
        serve(log_requests=False).get("/v1/models")
    assert caplog.text == ""


def test_pages_of_other_sites_may_not_ask_unless_named(serve: Serve) -> None:
    origin = {"origin": "https://app.example"}
    refused = serve().post("/tokenize", {"prompt": "a"}, headers=origin)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert not [name for name in refused.headers if name.startswith("access-control")]
    named = serve(cors_origin="https://app.example").post("/tokenize", {"prompt": "a"}, headers=origin)
    assert named.headers["access-control-allow-origin"] == "https://app.example"


@pytest.mark.parametrize("path", sorted(COMPUTING))
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_page_sends_without_asking_first_does_not_reach_the_engine(
    serve: Serve, engine: ScriptedEngine, path: str, kind: str
) -> None:
    client, before = serve(), engine.stats().num_requests
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for headers, status in ((page, 403), ({}, 415)):
        response = client.post(path, json.dumps(CHAT).encode(), headers={"content-type": kind, **headers})
        assert response.status_code == status or (status, response.status_code) == (415, 404)
    assert engine.stats().num_requests == before
    assert client.app.state.serving.admission.num_entered == 0


def test_a_name_that_points_here_is_not_the_servers(serve: Serve, engine: ScriptedEngine) -> None:
    engine.say("ok")
    headers = {"host": "evil.example:8000", "origin": "http://evil.example:8000", "sec-fetch-site": "same-origin"}
    refused = serve().post("/v1/chat/completions", CHAT, headers=headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
    allowed = serve(allowed_hosts="evil.example").post("/v1/chat/completions", CHAT, headers=headers)
    assert allowed.status_code == 200


def test_a_constraint_that_costs_too_much_is_refused(serve: Serve) -> None:
    response = ask(serve(max_enum_values=2), None, structured_outputs={"choice": ["a", "b", "c"]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "structured_outputs.choice")
