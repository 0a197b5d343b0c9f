from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine


def test_the_one_model_is_listed_and_described(client: Client, engine: ScriptedEngine) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("tiny", "model", engine.context_len)
    assert client.get("/v1/models/tiny").json() == model


def test_another_model_is_not_found(client: Client) -> None:
    response = client.get("/v1/models/org/other")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
