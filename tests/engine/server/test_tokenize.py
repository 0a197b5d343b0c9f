from typing import Any

import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine


def test_a_text_and_its_tokens(client: Client, engine: ScriptedEngine) -> None:
    told = client.post("/tokenize", {"model": "tiny", "prompt": "Hello 😀", "return_token_strs": True}).json()
    assert told["tokens"] == engine.encode("Hello 😀")
    assert (told["count"], told["max_model_len"]) == (len(told["tokens"]), engine.context_len)
    assert len(told["token_strs"]) == told["count"]
    assert client.post("/detokenize", {"tokens": told["tokens"]}).json() == {"prompt": "Hello 😀"}


def test_a_chat_is_tokenized_as_it_is_answered(client: Client, engine: ScriptedEngine) -> None:
    messages = [{"role": "user", "content": "<|im_end|>"}]
    engine.say("ok")
    told = client.post("/tokenize", {"messages": messages}).json()["tokens"]
    answer = client.post("/v1/chat/completions", {"messages": messages, "return_token_ids": True}).json()
    assert told == answer["prompt_token_ids"]


def test_control_tokens_are_text_unless_asked_for(client: Client) -> None:
    assert client.post("/tokenize", {"prompt": "<|im_end|>"}).json()["count"] > 1
    assert client.post("/tokenize", {"prompt": "<|im_end|>", "parse_control_tokens": True}).json()["count"] == 1


@pytest.mark.parametrize("name", ["self", "args", "kwargs", "name", "source", "variables", "context", "environment"])
@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/completions", "/v1/responses"])
def test_a_variable_of_the_template_may_have_any_name(
    client: Client, engine: ScriptedEngine, path: str, name: str
) -> None:
    engine.say("ok")
    hi = [{"role": "user", "content": "hi"}]
    body = {"input" if path == "/v1/responses" else "messages": hi, "chat_template_kwargs": {name: 1}}
    response = client.post(path, body)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt"),
        ("/tokenize", {"prompt": "a "}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {"tokens": [99_999]}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"token": [1]}, "token"),
    ],
)
def test_what_is_wrong_is_told(client: Client, path: str, body: Any, param: str) -> None:
    response = client.post(path, body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_nothing_is_missing_where_too_much_is_given(client: Client) -> None:
    body = {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}
    assert client.post("/tokenize", body).json()["error"]["code"] == "invalid_value"
    assert client.post("/tokenize", {}).json()["error"]["code"] == "missing_parameter"
