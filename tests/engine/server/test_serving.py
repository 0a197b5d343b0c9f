import asyncio

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.engine import Engine
from sureact.errors import RequestAbortedError
from sureact.server.api_error import ApiError
from sureact.server.server_config import ServerConfig
from sureact.server.serving import SALT_OF_KEY, Serving


def test_a_model_in_a_folder_is_named_without_its_path(engine: ScriptedEngine) -> None:
    name = Serving(AsyncEngine.of(engine), ServerConfig()).model_name
    assert name
    assert "/" not in name


def test_another_model_is_not_found(engine: ScriptedEngine) -> None:
    serving = Serving(AsyncEngine.of(engine), ServerConfig(served_model_name="tiny"))
    serving.check_model(None)
    serving.check_model("tiny")
    with pytest.raises(ApiError) as refused:
        serving.check_model("gpt-4")
    assert (refused.value.status, refused.value.param, refused.value.code) == (404, "model", "model_not_found")


def test_control_tokens_have_ids_and_other_words_have_none(engine: ScriptedEngine) -> None:
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    assert serving.control_id("<think>") == engine.encode("<think>", parse_control_tokens=True)[0]
    assert serving.control_id("<none>") is None
    assert serving.control_id("a") is None


def test_the_salt_of_a_key_and_of_a_request_are_told_apart(engine: ScriptedEngine) -> None:
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    salts = {
        serving.cache_salt({SALT_OF_KEY: key} if key else {}, asked) for key in (None, "a") for asked in (None, "a")
    }
    assert len(salts) == 4
    assert serving.cache_salt({}, None) is None


def test_it_is_ready_once_a_token_was_decoded(engine: ScriptedEngine) -> None:
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    assert not serving.is_ready
    before = engine.stats().num_requests
    asyncio.run(serving.warm_up())
    assert serving.is_ready
    assert engine.stats().num_requests == before + 1


def test_it_stays_unready_where_no_token_can_be_decoded(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RequestAbortedError("closed")

    monkeypatch.setattr(Engine, "new_request", fail)
    monkeypatch.setattr(ScriptedEngine, "new_request", fail)
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    asyncio.run(serving.warm_up())
    assert not serving.is_ready
