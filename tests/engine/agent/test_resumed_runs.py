"""What a run that goes on keeps of the types, values, secrets and calls of the run before."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic import Field as PydanticField
from tests.engine.agent.test_resume import add, agent, context_of, cut_after, pair, script_of

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.errors import ConfigError


def test_a_type_that_the_model_reads_alike_is_another_signature(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lm = ScriptedModel([*pair("add", "fields", a=1), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        ReAct("q -> pair: tuple[int, str]", [add], lm=lm, prompt_format="fields", trace=path)(q="?")
    other = ReAct("q -> pair: list", [add], lm=ScriptedModel([]), prompt_format="fields")
    with pytest.raises(ConfigError, match="output annotations"):
        other.resume(path)


class Place(BaseModel):
    name: str = PydanticField("none", validation_alias="Name")


class Where(Signature):
    q: str = InputField()
    place: Place = OutputField()


def test_a_finished_run_gives_the_value_that_it_gave(tmp_path: Path) -> None:
    script = [*pair("finish", "fields"), '{"reasoning": "", "place": {"Name": "Rome"}}']
    options: dict[str, Any] = {"lm": ScriptedModel(script), "prompt_format": "fields"}
    given = ReAct(Where, [], trace=tmp_path / "t.jsonl", **options)(q="?")
    assert given.place.name == "Rome"
    assert ReAct(Where, [], **options).resume(tmp_path / "t.jsonl").place == given.place


@pytest.mark.parametrize("is_dry", [False, True])
def test_calls_of_a_dry_run_are_made_once_the_run_goes_on_for_real(tmp_path: Path, is_dry: bool) -> None:
    path, paid = tmp_path / "t.jsonl", list[int]()

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    options: dict[str, Any] = {"tools": [pay], "on_repeat": "mask"}
    call = pair("pay", "fields", amount=3)
    with pytest.raises(KeyboardInterrupt):
        agent([*call, KeyboardInterrupt()], dry_run=True, trace=path, **options)(question="?")
    end = [*pair("finish", "fields"), '{"reasoning": "", "answer": 3}']
    script = [*call, *end[1:]] if is_dry else [*call, *end]
    resumed = agent(script, dry_run=is_dry, **options).resume(path)
    assert paid == ([] if is_dry else [3])
    assert resumed.trajectory["tool_name_1"] == ("finish" if is_dry else "pay")


def test_what_was_redacted_must_be_given_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(KeyboardInterrupt):
        agent([*pair("add", "fields", a=77), KeyboardInterrupt()], trace=path, redact=["question", "a"])(
            question="What?!"
        )
    cut_after(path, "call_started")
    with pytest.raises(ConfigError, match="this agent has no redact="):
        agent([]).resume(path)
    with pytest.raises(ConfigError, match="question were redacted"):
        agent([], redact=["question"]).resume(path)
    again = {"question": "What?!"}
    with pytest.raises(ConfigError, match="arguments of the unfinished call of 'add' were redacted"):
        agent([], redact=["question"]).resume(path, inputs=again, on_unfinished=lambda call: "run")
    react = agent(script_of("fields")[-3:], redact=["question"])
    assert react.resume(path, inputs=again, on_unfinished=lambda call: "skip").answer == 3
    assert "What?!" in bytes(id_ for id_ in context_of(react) if id_ < 256).decode()
    assert "What?!" not in path.read_text()
    assert agent([]).resume(path).answer == 3
