import json
import re
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.react import ReAct
from sureact.agent.redaction import MARK, Redactor, checked_patterns
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary
from sureact.agent.trace import read_trace
from sureact.errors import ConfigError

SECRET = 'hun"ter\\2 é'
KEY = "sk-abcdef123456"


class ShowingModel(ScriptedModel):
    vocabulary = byte_vocabulary()


def login(user: str, password: str, pin: int = 4711) -> dict[str, Any]:
    """Log in."""
    if user == "nobody":
        raise ValueError(f"no {user} with {password} and {KEY}")
    return {"session": {"API_Key": KEY}, "said": f"{password} of {user}", "pin": pin}


def spelled(secret: str) -> list[str]:
    """All the ways in which a text could stand in a trace: as it is, escaped once, twice, and as ids."""
    once, plain = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    ids = json.dumps(list(secret.encode()))[1:-1]
    return [secret, once, plain, json.dumps(once)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1], ids]


@pytest.mark.parametrize("user", ["bob", "nobody"])
def test_nothing_of_a_secret_is_in_the_file(tmp_path: Path, user: str) -> None:
    path = tmp_path / "t.jsonl"
    args = json.dumps({"user": user, "password": SECRET, "pin": 998877}, ensure_ascii=False)
    script = [
        f" I log in with {SECRET} and {KEY}.\n",
        f"Action: login\nArguments: {args}\n",
        " Done.\n",
        "Action: finish\nArguments: {}\n",
        json.dumps({"reasoning": f"It said {SECRET}", "answer": KEY}, ensure_ascii=False),
    ]
    redact = ["Password", "api_key", "pin", re.compile(r"sk-\w+")]
    agent = ReAct(
        "question, password -> answer",
        [login],
        lm=ShowingModel(script),
        prompt_format="fields",
        trace=path,
        redact=redact,
    )
    prediction = agent(question=f"Log in with {KEY}", password=SECRET)
    assert prediction.answer == KEY
    assert SECRET in prediction.trajectory["thought_0"]
    text = path.read_text()
    for secret in (SECRET, KEY, "998877"):
        for spelling in spelled(secret):
            assert spelling not in text
    assert MARK in text
    header, prompt, thought, call, *_ = read_trace(path)
    assert header["inputs"] == {"question": f"Log in with {MARK}", "password": MARK}
    assert call["tool_args"] == {"user": user, "password": MARK, "pin": MARK}
    for record in (prompt, thought, call):
        assert record["context_ids"] is None
    assert call["generation"]["token_ids"] is call["generation"]["tokens"] is None
    done = read_trace(path)[6]
    assert (done["text"], done["context_ids"]) == ("Done.", list(b"Thought: Done.\n"))


def test_an_error_that_ends_the_run_is_cleaned_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    agent = ReAct(
        "q -> a", [], lm=ScriptedModel([RuntimeError(f"lost {KEY}")]), prompt_format="fields", trace=path,
        redact=[re.compile("sk-[a-z0-9]+")],
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=KEY):
        agent(q="?")
    assert KEY not in path.read_text()
    assert read_trace(path)[-1]["message"] == f"lost {MARK}"


@pytest.mark.parametrize(
    "text",
    [
        "token: s3cret",
        "token=s3cret&x=1",
        '{"token": "s3cret"}',
        "{'TOKEN': 's3cret'}",
        '"{\\"token\\": \\"s3cret\\"}"',
        "token = 's3cret",
        "https://host/?a=1&token=s3cret",
    ],
)
def test_a_named_value_inside_a_text_is_found(text: str) -> None:
    cleaned = Redactor(["token"]).clean({"type": "thought", "text": f"before {text} after"})
    assert "s3cret" not in cleaned["text"]
    assert cleaned["text"].startswith("before ")


def test_what_is_no_secret_stays() -> None:
    record = {"type": "thought", "run_id": "token", "text": "my_token: 3, tokens: 4", "context_ids": [1]}
    assert Redactor(["token"]).clean(record) == record
    nested = {"type": "call", "tool_args": {"a": [{"token": True}, {"b": 1.5}]}, "usage": {"token": 1}}
    cleaned = Redactor(["token"]).clean(nested)
    assert cleaned["tool_args"] == {"a": [{"token": MARK}, {"b": 1.5}]}
    assert cleaned["usage"] == {"token": 1}


def test_short_values_are_hidden_under_their_name_only() -> None:
    redactor = Redactor(["pin"])
    cleaned = redactor.clean({"type": "call", "tool_args": {"pin": "123"}, "refusal": "123 apples"})
    assert cleaned["tool_args"] == {"pin": MARK}
    assert cleaned["refusal"] == "123 apples"


def test_a_context_that_is_written_anew_never_has_ids() -> None:
    cleaned = Redactor(["pin"]).clean({"type": "truncated", "dropped_steps": [0], "steps": [], "context_ids": [1]})
    assert cleaned["context_ids"] is None


def test_a_learned_value_is_a_secret_later() -> None:
    redactor = Redactor(["password"])
    redactor.learn({"inputs": {"logins": [{"password": "swordfish"}]}})
    assert redactor.clean({"type": "thought", "text": "It is swordfish."})["text"] == f"It is {MARK}."


@pytest.mark.parametrize("patterns", ["password", [""], [3], [re.compile(b"x")], [re.compile("x*")], re.compile("x")])
def test_patterns_that_mean_nothing_are_refused(patterns: Any) -> None:
    with pytest.raises(ConfigError, match="redact"):
        checked_patterns(patterns)
    with pytest.raises(ConfigError, match="redact"):
        ReAct("q -> a", [], lm=ScriptedModel([]), redact=patterns)
