import os
from pathlib import Path

from tests.engine.server.agent_servers import FINISH, PATH, SaltedScript, step
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig


def test_what_no_route_takes_is_refused_as_json(client: Client) -> None:
    for response, status in ((client.get("/nowhere"), 404), (client.get("/v1/chat/completions"), 405)):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_chat_is_answered(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello there, 你好 😀!")
    choice = client.answer()
    assert choice["message"] == {"role": "assistant", "content": "Hello there, 你好 😀!", "refusal": None}
    assert choice["finish_reason"] == "stop"


def test_tools_of_a_file_run_in_a_process_of_their_own(engine: ScriptedEngine, tmp_path: Path) -> None:
    file = tmp_path / "server_tools.py"
    file.write_text("import os\ndef whose() -> list[int]:\n    return [os.getpid(), os.getppid()]\n")
    client = Client(create_app(AsyncEngine.of(engine), ServerConfig(tools=str(file))))
    client.app.state.serving.lm = SaltedScript([*step("whose"), *FINISH])
    answer = client.post(PATH, {"question": "?", "format": "fields"}).json()
    process_id, parent_id = map(int, answer["trajectory"][0]["observation"][1:-1].split(","))
    assert parent_id == os.getpid() != process_id
