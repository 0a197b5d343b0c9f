from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine


def test_what_no_route_takes_is_refused_as_json(client: Client) -> None:
    for response, status in ((client.get("/nowhere"), 404), (client.get("/v1/chat/completions"), 405)):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_chat_is_answered(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello there, 你好 😀!")
    choice = client.answer()
    assert choice["message"] == {"role": "assistant", "content": "Hello there, 你好 😀!", "refusal": None}
    assert choice["finish_reason"] == "stop"
