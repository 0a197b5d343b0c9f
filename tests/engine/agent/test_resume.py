import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.prediction import Prediction
from sureact.agent.react import ReAct
from sureact.agent.recorded_run import recorded_runs
from sureact.agent.resume import SKIPPED, UnfinishedCall
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.agent.trace import read_trace
from sureact.engine import Engine
from sureact.errors import ConfigError, SureactError, TraceError


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def pair(name: str, form: str, **args: object) -> list[str]:
    """The two texts of a step."""
    args_json = json.dumps(args, ensure_ascii=False)
    if form == "qwen_tool_call":
        return [
            f"I use {name}.",
            f'<tool_call>\n{{"name": "{name}", "arguments": {args_json}}}\n</tool_call>',
        ]
    if form == "qwen_react":
        call = "Final Answer:\n" if name == "finish" else f"Action: {name}\nAction Input: {args_json}\n"
        return [f" I use {name}.\n", call]
    return [f" I use {name}.\n", f"Action: {name}\nArguments: {args_json}\n"]


def script_of(form: str) -> list[str]:
    return [
        *pair("add", form, a=1),
        *pair("fail", form, reason="é `x`\n"),
        *pair("add", form, a=1),
        *pair("add", form, a=2, b=5),
        *pair("finish", form),
        '{"reasoning": "added", "answer": 3}',
    ]


def agent(script: Sequence[str | BaseException], form: str = "fields", **options: Any) -> ReAct:
    lm = ScriptedModel(script, context_len=options.pop("context_len", 100_000))
    given: dict[str, Any] = {"tools": [add, fail], "lm": lm, "prompt_format": form, "on_repeat": "remind", **options}
    return ReAct("question -> answer: int", **given)


def context_of(react: ReAct) -> list[int]:
    assert isinstance(react.lm, ScriptedModel)
    return react.lm.sessions[-1].token_ids


def outcome(prediction: Prediction) -> tuple[object, ...]:
    return (dict(prediction.trajectory), dict(prediction), prediction.termination_reason)


def num_generated(path: Path) -> int:
    """Texts that are in the trace and need not be generated again."""
    return sum(record["type"] in ("thought", "call") for record in read_trace(path))


def cuts(data: bytes) -> list[int]:
    """After every record, and in the middle of each but the header."""
    ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    starts = [0, *ends[:-1]]
    middles = [(start + end) // 2 for start, end in zip(starts, ends, strict=True)]
    return sorted(cut for cut in {*ends, *middles, *(end - 1 for end in ends)} if cut >= ends[0])


def whole_run(path: Path, form: str, **options: Any) -> tuple[Prediction, list[int], bytes]:
    react = agent(script_of(form), form, trace=path, **options)
    prediction = react(question="1 + 2?")
    return prediction, context_of(react), path.read_bytes()


def tight(form: str) -> dict[str, Any]:
    """Options with which steps must leave the context."""
    react = agent([], form)
    ends = (react.prompt_format.opening({"question": "1 + 2?"}), react.prompt_format.outputs_request())
    ends_len = sum(react.lm.count_tokens(text.text) for text in ends)
    limits = TokenLimits(thought=40, call=80, observation=120, outputs=100)
    return {"limits": limits, "context_len": ends_len + 700}


@pytest.mark.parametrize("options_of", [lambda form: {}, tight], ids=["roomy", "truncated"])  # pyright: ignore[reportUnknownLambdaType]
@pytest.mark.parametrize("form", ["fields", "qwen_tool_call", "qwen_react"])
def test_wherever_a_run_was_cut_off_it_ends_as_it_would_have(
    tmp_path: Path, form: str, options_of: Callable[[str], dict[str, Any]]
) -> None:
    options = options_of(form)
    prediction, context, data = whole_run(tmp_path / "whole.jsonl", form, **options)
    for cut in cuts(data):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(data[:cut])
        react = agent(script_of(form)[num_generated(path) :], form, **options)
        resumed = react.resume(path, on_unfinished=lambda call: "run")
        assert outcome(resumed) == outcome(prediction), cut
        if cut < len(data):
            assert context_of(react) == context, cut
            assert agent([], form, **options).resume(path).trajectory == prediction.trajectory
            (run,) = recorded_runs(path)
            assert run.outputs is not None


@pytest.mark.parametrize("form", ["fields", "qwen_tool_call", "qwen_react"])
def test_the_tight_context_above_is_truncated(tmp_path: Path, form: str) -> None:
    whole_run(tmp_path / "t.jsonl", form, **tight(form))
    assert any(record["type"] == "truncated" for record in read_trace(tmp_path / "t.jsonl"))


def test_a_run_can_be_resumed_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = script_of("fields")
    for done in range(len(script)):
        react = agent([script[done], KeyboardInterrupt()], trace=path)
        with pytest.raises(KeyboardInterrupt):
            _ = react(question="1 + 2?") if done == 0 else react.resume(path, on_unfinished=lambda call: "run")
        if done == len(script) - 2:
            break
    prediction = agent(script[-1:]).resume(path)
    assert [step.tool_name for step in prediction.trajectory.steps] == ["add", "fail", "add", "add", "finish"]
    types = [record["type"] for record in read_trace(path)]
    assert types.count("thought") == types.count("call") == 5
    assert types.count("header") == types.count("outputs") == 1


def cut_after(path: Path, record_type: str, step: int = 0) -> None:
    """Cut a trace off after a record."""
    lines = path.read_text().splitlines(keepends=True)
    for index, line in enumerate(lines):
        record = json.loads(line)
        if record["type"] == record_type and record.get("step", step) == step:
            path.write_text("".join(lines[: index + 1]))
            return
    raise AssertionError(record_type)


@pytest.fixture
def charged(tmp_path: Path) -> Callable[..., tuple[Path, list[int], Callable[..., ReAct]]]:
    """Return a function that gives a trace ending in the call of a tool, what the tool did, and its agent's maker."""

    def make(**tool_options: Any) -> tuple[Path, list[int], Callable[..., ReAct]]:
        path, charges = tmp_path / "t.jsonl", list[int]()

        def charge(amount: int) -> str:
            """Charge."""
            charges.append(amount)
            return "charged"

        def make_agent(script: Sequence[str], **options: Any) -> ReAct:
            return agent(script, tools=[Tool(charge, **tool_options)], **options)

        script = [*pair("charge", "fields", amount=3), *pair("finish", "fields"), '{"reasoning": "", "answer": 3}']
        make_agent(script, trace=path)(question="?")
        cut_after(path, "call_started")
        charges.clear()
        return path, charges, lambda: make_agent(script[2:])

    return make


Charged = Callable[..., tuple[Path, list[int], Callable[..., ReAct]]]


def test_a_call_that_had_started_is_not_run_again_without_a_word(charged: Charged) -> None:
    path, charges, make = charged()
    before = path.read_bytes()
    with pytest.raises(TraceError, match=r'charge\(\{"amount": 3\}\).*on_unfinished.*idempotent=True'):
        make().resume(path)
    assert charges == []
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("answer", "charges", "observation"),
    [("run", [3], "charged"), ("skip", [], SKIPPED), ("It was charged.", [], "It was charged.")],
)
def test_who_resumes_says_what_becomes_of_the_call(
    charged: Charged, answer: str, charges: list[int], observation: str
) -> None:
    path, made, make = charged()
    asked: list[UnfinishedCall] = []

    def on_unfinished(call: UnfinishedCall) -> str:
        asked.append(call)
        return answer

    prediction = make().resume(path, on_unfinished=on_unfinished)
    assert [(call.tool_name, call.args, call.step_index) for call in asked] == [("charge", {"amount": 3}, 0)]
    assert made == charges
    assert prediction.trajectory["observation_0"] == observation


def test_an_idempotent_tool_just_runs(charged: Charged) -> None:
    path, charges, make = charged(idempotent=True)
    assert make().resume(path).answer == 3
    assert charges == [3]


def test_an_answer_that_is_no_text_is_refused(charged: Charged) -> None:
    path, _, make = charged()
    with pytest.raises(ConfigError, match="returned True"):
        make().resume(path, on_unfinished=lambda call: True)  # pyright: ignore[reportArgumentType]


def test_a_repeated_call_that_had_started_needs_no_question(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    prediction, _, _ = whole_run(path, "fields")
    cut_after(path, "call_started", step=2)
    assert outcome(agent(script_of("fields")[6:]).resume(path)) == outcome(prediction)


def test_changed_tools_are_refused_by_name_unless_allowed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole_run(path, "fields")
    cut_after(path, "observation", step=1)

    def new(x: int) -> int:
        """Do something new."""
        return x

    tools = [Tool(add, desc="Adds."), new]
    with pytest.raises(ConfigError) as caught:
        agent([], tools=tools).resume(path)
    for change in ("'fail' is gone", "'new' is new", "'add' has another description or schema", "allow_changed_tools"):
        assert change in str(caught.value)
    react = agent(script_of("fields")[4:], tools=tools)
    assert react.resume(path, allow_changed_tools=True).answer == 3
    assert "Do something new." in bytes(id_ for id_ in context_of(react) if id_ < 256).decode()
    resumed = next(record for record in read_trace(path) if record["type"] == "resumed")
    assert sorted(resumed["changed_tools"]) == ["add", "fail", "new"]


def test_an_unfinished_call_of_a_tool_that_is_gone_or_changed_is_refused(charged: Charged) -> None:
    path, _, _ = charged()

    def charge(euros: int) -> str:
        """Charge."""
        return str(euros)

    for tools, message in (([add], "no such tool"), ([charge], "does not fit the tool")):
        with pytest.raises(ConfigError, match=message):
            agent([], tools=tools).resume(path, on_unfinished=lambda call: "run", allow_changed_tools=True)


def test_another_model_format_or_signature_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole_run(path, "fields")
    cut_after(path, "prompt")
    with pytest.raises(ConfigError, match="prompt format 'fields'; this agent has 'qwen_react'"):
        agent([], "qwen_react").resume(path)
    with pytest.raises(ConfigError, match="output types"):
        ReAct("question -> answer: str", [add, fail], lm=ScriptedModel([]), prompt_format="fields").resume(path)
    other = agent([])
    other.lm.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ConfigError, match="the model 'scripted'; this agent has 'other'"):
        other.resume(path)


def test_which_run_is_meant_must_be_clear(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            agent([KeyboardInterrupt()], trace=path)(question="?")
    first, second = (run.run_id for run in recorded_runs(path))
    with pytest.raises(TraceError, match=f"{first}.*aborted by KeyboardInterrupt.*{second}"):
        agent([]).resume(path)
    assert agent(script_of("fields")).resume(path, run_id=first[:8]).answer == 3
    # The other one is now the only one that is open.
    assert agent(script_of("fields")).resume(path).answer == 3
    assert [run.state for run in recorded_runs(path)] == ["ended by finish"] * 2


def test_the_steps_of_the_first_part_count(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    agent(script_of("fields"), trace=path, max_iters=7)(question="?", max_iters=6)
    cut_after(path, "observation", step=1)
    script = [*script_of("fields")[4:6], '{"reasoning": "", "answer": 1}']
    prediction = agent(script).resume(path, max_iters=3)
    assert (prediction.termination_reason, len(prediction.trajectory.steps)) == ("max_iters", 3)
    usage = prediction.usage
    assert usage.num_generations == 7
    with pytest.raises(ConfigError, match="max_iters is 0"):
        agent([]).resume(path, max_iters=0)


def test_version_1_is_resumed_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    prediction, context, data = whole_run(path, "fields")
    old: list[str] = []
    for line in data.decode().splitlines():
        record = json.loads(line)
        if record["type"] in ("prompt", "call"):
            continue
        later = (
            "signature",
            "limits",
            "max_iters",
            "on_repeat",
            "context_len",
            "require_tools",
            "finish_after_error",
            "demos",
            "demos_digest",
        )
        for name in ("context_ids", "generation", *later):
            record.pop(name, None)
        if record["type"] == "header":
            record["version"] = 1
            del record["model_fingerprint"]
            record["tools"] = [{k: v for k, v in tool.items() if k != "digest"} for tool in record["tools"]]
        old.append(json.dumps(record) + "\n")
    for num_lines in range(1, len(old) + 1):
        path.write_text("".join(old[:num_lines]))
        num_done = sum(json.loads(line)["type"] == "call_started" for line in old[:num_lines])
        react = agent(script_of("fields")[2 * num_done :])
        assert outcome(react.resume(path, on_unfinished=lambda call: "run")) == outcome(prediction)
        if num_lines < len(old):
            assert context_of(react) == context


def ids_of(records: list[dict[str, Any]]) -> list[list[int]]:
    """What each part added to the context."""
    return [record["context_ids"] for record in records if "context_ids" in record]


def test_on_a_model_the_context_is_the_same_token_by_token(tmp_path: Path, roomy_engine: Engine) -> None:
    limits = TokenLimits(thought=8, call=60, observation=40, outputs=900)

    def make(**options: Any) -> ReAct:
        return ReAct(
            "question -> answer: bool", [add], lm=roomy_engine, limits=limits, prompt_format="fields", **options
        )

    whole = tmp_path / "whole.jsonl"
    expected: object
    try:
        expected = outcome(make(trace=whole, max_iters=3)(question="?"))
    except SureactError as error:
        expected = str(error)
    records = read_trace(whole)
    lines = whole.read_text().splitlines(keepends=True)
    for num_lines in range(2, len(lines)):
        path = tmp_path / f"{num_lines}.jsonl"
        path.write_text("".join(lines[:num_lines]))
        got: object
        try:
            got = outcome(make().resume(path, on_unfinished=lambda call: "run"))
        except SureactError as error:
            got = str(error)
        assert got == expected
        assert ids_of(read_trace(path)) == ids_of(records)


@pytest.mark.parametrize("num_records", range(2, 11))
def test_what_a_thinking_model_thought_is_taken_over(tmp_path: Path, num_records: int) -> None:
    path = tmp_path / "t.jsonl"
    think = ["<think>", "hm\nhm</think>"]
    script = [*think, *pair("add", "fields", a=1), *think, *pair("finish", "fields"), '{"reasoning": "", "answer": 3}']
    react = agent(script, tools=[Tool(add, idempotent=True)], trace=path)
    whole = react(question="?")
    records = read_trace(path)[:num_records]
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:num_records]))
    done = sum(len(part.get("earlier_generations", ())) + ("generation" in part) for part in records)
    again = agent(script[done:], tools=[Tool(add, idempotent=True)])
    resumed = again.resume(path)
    assert outcome(resumed) == outcome(whole)
    assert [step.thinking for step in resumed.trajectory.steps] == ["hm\nhm", "hm\nhm"]
    assert context_of(again) == context_of(react)
