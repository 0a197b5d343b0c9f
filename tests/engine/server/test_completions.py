from typing import Any

import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.server.completions import COMPLETION_FIELDS

PATH = "/v1/completions"


def test_no_field_is_named_twice() -> None:
    names = [field.name for field in COMPLETION_FIELDS]
    assert len(names) == len(set(names))


def test_a_text_goes_on(client: Client, engine: ScriptedEngine) -> None:
    engine.say("there, how")
    answer = client.post(PATH, {"model": "tiny", "prompt": "Hello", "max_tokens": 50}).json()
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"], choice["index"]) == ("there, how", "stop", 0)
    assert answer["object"] == "text_completion"
    assert answer["usage"]["prompt_tokens"] == len(engine.encode("Hello"))
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]


def test_prompts_are_texts_or_ids_and_answered_in_order(client: Client, engine: ScriptedEngine) -> None:
    alone = [
        client.post(PATH, {"prompt": prompt, "max_tokens": 4}).json()["choices"][0]["text"] for prompt in ("a", "b")
    ]
    ids = [engine.encode("a"), engine.encode("b")]
    for prompts in (["a", "b"], ids):
        answer = client.post(PATH, {"prompt": prompts, "max_tokens": 4}).json()
        assert [choice["text"] for choice in answer["choices"]] == alone
        assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert client.post(PATH, {"prompt": ids[0], "max_tokens": 4}).json()["choices"][0]["text"] == alone[0]


def test_several_texts_are_drawn_each_with_its_own_seed(client: Client) -> None:
    body = {"prompt": ["a", "b"], "n": 2, "temperature": 1, "seed": 3, "max_tokens": 5}
    first, second = (client.post(PATH, body).json()["choices"] for _ in range(2))
    assert [c["text"] for c in first] == [c["text"] for c in second]
    assert len({c["text"] for c in first}) > 1


def test_the_prompt_may_come_first(client: Client, engine: ScriptedEngine) -> None:
    engine.say(" there")
    assert client.post(PATH, {"prompt": "Hello", "echo": True}).json()["choices"][0]["text"] == "Hello there"


def test_log_probabilities_stand_beside_the_tokens(client: Client, engine: ScriptedEngine) -> None:
    engine.say("there, how")
    body = {"prompt": "Hello", "logprobs": 2, "max_tokens": 50, "return_token_ids": True}
    (choice,) = client.post(PATH, body).json()["choices"]
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == "there, how"
    assert told["text_offset"][0] == 0
    assert len(told["tokens"]) == len(told["token_logprobs"]) == len(told["top_logprobs"]) == len(choice["token_ids"])
    assert choice["prompt_token_ids"] == engine.encode("Hello")
    streamed = client.events(PATH, body)
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        pieces = [event["choices"][0]["logprobs"] for event in streamed]
        assert [item for piece in pieces if piece for item in piece[name]] == told[name]


def test_a_stream_adds_up_and_ends_with_the_usage(client: Client, engine: ScriptedEngine) -> None:
    engine.say("one 😀 two three")
    body = {"prompt": "Hello", "max_tokens": 50, "stop": " three"}
    whole = client.post(PATH, body).json()
    events = client.events(PATH, {**body, "stream_options": {"include_usage": True}})
    choices = [event["choices"][0] for event in events[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"] == "one 😀 two"
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert choices[-1]["stop_reason"] == " three"
    assert (events[-1]["choices"], events[-1]["usage"]) == ([], whole["usage"])


def test_a_constrained_text_is_what_it_must_be(client: Client) -> None:
    body = {"prompt": "Hello", "structured_outputs": {"choice": ["yes", "no"]}}
    assert client.post(PATH, body).json()["choices"][0]["text"] in ("yes", "no")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "a "}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": [[1], "a", 3]}, "prompt[2]"),
        ({"prompt": [999_999]}, "prompt"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo"),
        ({"prompt": "a", "max_tokens": 100_000}, "prompt"),
        ({"prompt": "a", "structured_outputs": {"regex": "a"}, "stop": "b"}, "stop"),
        ({"prompt": "a", "model": "other"}, "model"),
    ],
)
def test_what_is_wrong_is_told(client: Client, body: dict[str, Any], param: str) -> None:
    response = client.post(PATH, body)
    assert response.status_code == (404 if param == "model" else 400)
    assert response.json()["error"]["param"] == param
