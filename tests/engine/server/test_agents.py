"""Agents over HTTP: what is answered and what is refused."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from tests.engine.server.agent_servers import ANSWER, FINISH, PATH, AgentClient, add, fail, step
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.agent.tool import Tool
from sureact.engine import Engine
from sureact.errors import ToolDefinitionError, UnsupportedSchemaError
from sureact.server.agents import served_tools

ASK = {"question": "?", "format": "fields"}


@pytest.fixture
def agents(engine: ScriptedEngine) -> AgentClient:
    return AgentClient(engine)


def test_a_run_is_answered_with_its_outputs_and_steps(agents: AgentClient) -> None:
    agents.say([*step("add", a=1), *step("fail", reason="no"), *FINISH])
    answer = agents.ask()
    assert answer["object"] == "agent.run"
    assert answer["id"].startswith("run_")
    assert (answer["model"], answer["outputs"], answer["reasoning"]) == ("tiny", {"answer": "42"}, "So it is.")
    assert (answer["termination_reason"], answer["early_ends"]) == ("finish", [])
    steps = answer["trajectory"]
    assert [(s["step_index"], s["tool_name"], s["outcome"], s["is_error"]) for s in steps] == [
        (0, "add", "done", False),
        (1, "fail", "error", True),
        (2, "finish", "done", False),
    ]
    assert (steps[0]["thought"], steps[0]["thinking"], steps[0]["tool_args"]) == ("I use add.", "", {"a": 1})
    assert steps[0]["observation"] == "3"
    assert "no" in steps[1]["observation"]
    usage = answer["usage"]
    assert usage["num_generations"] == 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["tool_seconds"] > 0


def test_a_stream_tells_each_step_and_ends_with_the_answer(agents: AgentClient) -> None:
    agents.say([*step("add", a=1), *FINISH])
    response = agents.post(PATH, {**ASK, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    kinds = [event["type"] for event in events]
    assert list(dict.fromkeys(kinds)) == [
        "run.started",
        "thought.delta",
        "call.delta",
        "call.started",
        "step.completed",
        "output.delta",
        "run.completed",
    ]
    assert [line[7:] for line in response.text.splitlines() if line.startswith("event: ")] == kinds
    assert response.text.endswith("data: [DONE]\n\n")
    assert len({event["id"] for event in events}) == 1
    assert events[0]["inputs"] == {"question": "?"}
    assert events[0]["tools"] == ["add", "fail", "finish"]
    assert (events[0]["max_iters"], events[0]["model"]) == (20, "tiny")
    assert events[-1]["run"]["outputs"] == {"answer": "42"}


def test_a_signature_has_typed_inputs_and_outputs(agents: AgentClient) -> None:
    agents.say([*step("finish"), '{"reasoning": "r", "day": "2024-02-29", "amounts": [1.5]}'])
    fields = {"signature": "start: date, n: int -> day: date, amounts: list[float]", "question": None}
    answer = agents.ask(**fields, inputs={"start": "2024-02-28", "n": 1}, instructions="Count days.")
    assert answer["outputs"] == {"day": "2024-02-29", "amounts": [1.5]}


def test_instructions_stand_in_the_prompt(agents: AgentClient) -> None:
    lm = agents.say(FINISH)
    agents.ask(instructions="Count in dozens.")
    assert "Count in dozens." in lm.sessions[0].text


def test_only_the_named_tools_can_be_called(agents: AgentClient) -> None:
    lm = agents.say([*step("fail", reason="x"), *FINISH])
    answer = agents.ask(tools=["fail"])
    assert answer["trajectory"][0]["tool_name"] == "fail"
    assert "add" not in lm.sessions[0].text
    agents.say([" Nothing to use.\n", "Action: finish\nArguments: {}\n", ANSWER])
    assert agents.ask(tools=[])["termination_reason"] == "finish"


def test_required_tools_come_before_the_end(agents: AgentClient) -> None:
    agents.say([*step("finish"), *step("add", a=1), *FINISH])
    answer = agents.ask(require_tools=["add"])
    assert [s["outcome"] for s in answer["trajectory"]] == ["refused", "done", "done"], "it may not finish at first"
    assert answer["trajectory"][0]["tool_name"] == ""


def test_a_dry_run_calls_no_tool(engine: ScriptedEngine) -> None:
    called: list[int] = []

    def note(n: int) -> None:
        """Note a number."""
        called.append(n)

    agents = AgentClient(engine, [note])
    agents.say([*step("note", n=1), *FINISH])
    assert agents.ask(dry_run=True)["trajectory"][0]["outcome"] == "dry_run"
    assert not called


def test_a_call_that_repeats_another_is_taken_back_in_the_stream(agents: AgentClient) -> None:
    again = step("add", a=1)
    agents.say([*again, *again, 'Action: fail\nArguments: {"reason": "x"}\n', *FINISH])
    events = agents.events(PATH, ASK)
    withdrawn = next(event for event in events if event["type"] == "call.withdrawn")
    assert (withdrawn["step_index"], withdrawn["tool_name"], withdrawn["tool_args"]) == (1, "add", {"a": 1})
    after = events[events.index(withdrawn) :]
    text = "".join(event["delta"] for event in after if event["type"] == "call.delta" and event["step_index"] == 1)
    assert text.startswith("Action: fail")
    agents.say([*again, *again, *FINISH])
    assert agents.ask(on_repeat="remind")["trajectory"][1]["is_repeat"]
    agents.say([*again, *again, *FINISH])
    assert not agents.ask(on_repeat="run")["trajectory"][1]["is_repeat"]


def test_a_step_that_does_not_end_is_told_to_be_dropped(agents: AgentClient) -> None:
    agents.say([" I add.\n", 'Action: add\nArguments: {"a": 11111111111', ANSWER])
    body = {**ASK, "max_call_tokens": 20}
    events = agents.events(PATH, body)
    kinds = [event["type"] for event in events]
    assert kinds.index("step.dropped") < kinds.index("output.delta")
    assert (events[-1]["run"]["termination_reason"], events[-1]["run"]["trajectory"]) == ("max_tokens", [])


def test_steps_that_the_context_lost_stay_in_the_answer(agents: AgentClient) -> None:
    probe = agents.say([*step("add", a=0), *FINISH])
    agents.ask()
    room = len(probe.sessions[0].token_ids) + 700
    script = [text for n in range(6) for text in step("add", f" {'I go on. ' * 9}", a=n)]
    agents.say([*script, *FINISH], context_len=room)
    limits = dict.fromkeys(("max_thought_tokens", "max_call_tokens", "max_output_tokens"), 120)
    events = agents.events(PATH, {**ASK, **limits, "max_observation_tokens": 60})
    truncated = [event for event in events if event["type"] == "context.truncated"]
    assert any(event["dropped_steps"] for event in truncated)
    assert all(event["rebuilt_tokens"] > 0 for event in truncated)
    assert [s["step_index"] for s in events[-1]["run"]["trajectory"]] == list(range(7))


def test_limits_of_the_run_end_it_with_outputs(agents: AgentClient) -> None:
    agents.say([*step("add", a=1), ANSWER])
    assert agents.ask(max_iters=1)["termination_reason"] == "max_iters"
    agents.say([*step("add", a=1), ANSWER])
    assert agents.ask(max_tokens=1736)["termination_reason"] == "token_budget"
    agents.say([ANSWER])
    assert agents.ask(max_seconds=1e-9)["termination_reason"] == "time_budget"


def test_prompts_share_the_cache_as_the_request_says(agents: AgentClient) -> None:
    lm = agents.say(FINISH)
    agents.ask()
    assert lm.salts == [None]
    lm = agents.say(FINISH)
    agents.ask(cache_salt="mine")
    assert lm.salts == ['[null, "mine"]']


def test_halves_of_surrogate_pairs_break_no_answer(engine: ScriptedEngine) -> None:
    def read(text: str) -> dict[str, str]:
        """Read something."""
        return {"a\ud83d": "\udc00"}

    agents = AgentClient(engine, [read])
    script = [" I say it.\n", 'Action: read\nArguments: {"text": "a\\ud83d"}\n', *step("read", text="a"), *FINISH]
    agents.say(script)
    refused, done, _ = agents.ask()["trajectory"]
    assert (refused["outcome"], refused["tool_args"], done["outcome"]) == ("refused", {}, "done")
    agents.say(script)
    assert agents.events(PATH, ASK)[-1]["run"]["trajectory"][1]["observation"] == done["observation"]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"question": None}, "question", "Neither question nor inputs"),
        ({"inputs": {"question": "?"}}, "question", "both given"),
        ({"question": " \n"}, "question", "empty"),
        ({"question": 3}, "question", "a text"),
        ({"question": None, "inputs": {"query": "?"}}, "inputs", "`question`"),
        ({"signature": "query -> answer"}, "question", "`query`"),
        ({"signature": "question: int -> answer", "question": "many"}, "question", "types"),
        ({"signature": "question answer"}, "signature", "arrows"),
        ({"signature": "question -> answer: os.system"}, "signature", "unknown"),
        ({"signature": "question -> " + "a" * 1000}, "signature", "1,000 characters"),
        ({"signature": "question -> answer: " + "-" * 900 + "1"}, "signature", "nested too deep"),
        ({"signature": "self -> answer", "question": None, "inputs": {"self": "?"}}, "signature", "reserved"),
        ({"tools": ["add", "rm"]}, "tools[1]", "add, fail"),
        ({"tools": "add"}, "tools", "a list"),
        ({"tools": ["add"], "require_tools": ["fail"]}, "require_tools[0]", "the tools are add."),
        ({"max_iters": 0}, "max_iters", "1 to 1,000"),
        ({"on_repeat": "ask"}, "on_repeat", '"mask", "remind" or "run"'),
        ({"on_repeat": []}, "on_repeat", '"mask", "remind" or "run"'),
        ({"format": "json"}, "format", "qwen_tool_call"),
        ({"max_tokens": 500}, "max_tokens", "1,736"),
        ({"temperature": 0.7}, "temperature", "0"),
        ({"store": True}, "store", "false"),
        ({"messages": []}, "messages", "question"),
        ({"approve": True}, "approve", "tools"),
        ({"max_steps": 3}, "max_steps", "not a field"),
    ],
)
def test_bad_requests_are_refused_by_name(agents: AgentClient, fields: Any, param: str, said: str) -> None:
    agents.say([])
    for stream in (False, True):
        error = agents.refusal(**fields, stream=stream)
        assert (error["status"], error["type"], error["param"]) == (400, "invalid_request_error", param)
        assert said in error["message"]


def test_neutral_values_change_nothing(agents: AgentClient) -> None:
    agents.say(FINISH)
    neutral = {"user": "u", "metadata": {"a": "b"}, "store": False, "temperature": 0, "n": 1, "messages": None}
    assert agents.ask(**neutral)["outputs"] == {"answer": "42"}


def test_a_run_that_does_not_fit_into_the_context_is_refused(agents: AgentClient) -> None:
    for context_len in (50, 2500):
        agents.say(FINISH, context_len=context_len)
        error = agents.refusal()
        assert (error["status"], error["code"]) == (400, "context_length_exceeded")
        assert f"{context_len:,}" in error["message"]


def test_outputs_that_do_not_end_are_an_error_of_their_own(agents: AgentClient) -> None:
    agents.say([*step("finish"), ANSWER])
    error = agents.refusal(max_output_tokens=5)
    assert (error["status"], error["code"], error["param"]) == (400, "output_truncated", "max_output_tokens")


def test_what_fails_inside_is_named_and_not_shown(agents: AgentClient) -> None:
    agents.say([" I add.\n", RuntimeError("in /opt/secret")])
    error = agents.refusal()
    assert (error["status"], error["code"]) == (500, "internal_error")
    assert "/opt" not in str(error)
    agents.say([" I add.\n", RuntimeError("in /opt/secret")])
    *_, last = agents.events(PATH, ASK)
    assert (last["type"], last["error"]["code"]) == ("error", "internal_error")
    assert last["id"].startswith("run_")
    assert "/opt" not in str(last)


def test_what_a_tool_raises_tells_no_paths(engine: ScriptedEngine) -> None:
    def look(file: str) -> str:
        """Look at a file."""
        return Path(f"/etc/nowhere/{file}").read_text()

    agents = AgentClient(engine, [look])
    agents.say([*step("look", file="x"), *FINISH])
    first = agents.ask()["trajectory"][0]
    assert first["outcome"] == "error"
    assert "/etc" not in first["observation"]
    assert "Traceback" not in first["observation"]


def test_a_tool_cannot_end_the_server(engine: ScriptedEngine) -> None:
    def leave() -> None:
        """Leave."""
        raise KeyboardInterrupt

    agents = AgentClient(engine, [leave])
    agents.say([*step("leave"), *FINISH])
    assert agents.refusal()["status"] == 500
    agents.say(FINISH)
    assert agents.ask()["outputs"] == {"answer": "42"}


def test_the_tools_are_listed(agents: AgentClient) -> None:
    listed = agents.get("/v1/agents/tools").json()
    assert listed["object"] == "list"
    assert [tool["name"] for tool in listed["data"]] == ["add", "fail"]
    assert listed["data"][0]["description"] == "Add two numbers."
    assert listed["data"][0]["parameters"]["properties"]["a"]["type"] == "integer"


def test_a_server_without_tools_says_how_it_gets_them(client: Client) -> None:
    for response in (client.get("/v1/agents/tools"), client.post(PATH, {"question": "?"})):
        assert response.status_code == 404
        error = response.json()["error"]
        assert error["code"] == "no_tools"
        assert "--tools FILE.py" in error["message"]


def test_tools_that_cannot_be_served_are_refused_at_the_start(engine: ScriptedEngine) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}
    with pytest.raises(UnsupportedSchemaError):
        served_tools([Tool(fail, args=schema)], 1.0)
    with pytest.raises(ToolDefinitionError):
        served_tools([add, add], 1.0)


def test_a_tool_without_a_time_limit_gets_one() -> None:
    tools = served_tools([fail, Tool(add, timeout_s=5.0)], 60.0)
    assert [tool.policy.timeout_s for tool in tools.values()] == [60.0, 5.0]


def test_dates_of_tools_and_outputs_are_text(engine: ScriptedEngine) -> None:
    def today() -> datetime.date:
        """Give the day."""
        return datetime.date(2024, 2, 29)

    agents = AgentClient(engine, [today])
    agents.say([*step("today"), *step("finish"), '{"reasoning": "r", "day": "2024-02-29"}'])
    answer = agents.ask(signature="question -> day: date")
    assert answer["outputs"] == {"day": "2024-02-29"}
    assert "2024" in answer["trajectory"][0]["observation"]


def test_a_key_is_needed_and_its_runs_share_nothing_with_others(engine: ScriptedEngine, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one:the-first-long-key\ntwo:the-second-long-key\n")
    agents = AgentClient(engine, api_keys=str(keys))
    assert agents.get("/v1/agents/tools").status_code == agents.post(PATH, ASK).status_code == 401
    salts: list[str | None] = []
    for key in ("the-first-long-key", "the-second-long-key"):
        lm = agents.say(FINISH)
        response = agents.post(PATH, ASK, headers={"authorization": f"Bearer {key}"})
        assert response.status_code == 200
        salts += lm.salts
    assert len(set(salts)) == 2
    assert None not in salts


@pytest.mark.model
def test_the_real_model_answers_with_a_tool(model_folder: Path) -> None:
    with Engine(str(model_folder), quantization="int8", max_model_len=4096) as real:
        agents = AgentClient(real, [add])
        fields = {"question": "What is 1234 + 4321? Use the tool.", "signature": "question -> answer: int"}
        answer = agents.ask(**fields, format=None, tools=["add"], max_iters=3)
    assert type(answer["outputs"]["answer"]) is int, "whether it is right is up to the model"
    first = answer["trajectory"][0]
    assert (first["tool_name"], first["outcome"]) == ("add", "done")
    assert first["observation"] == str(add(**first["tool_args"]))
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
