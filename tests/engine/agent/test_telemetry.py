from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import Attributes

from sureact.agent.react import ReAct
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.telemetry import RunSpans
from sureact.errors import ConfigError
from sureact.outputs import StepOutput, StepTimings, TokenUsage


class Kept(NonRecordingSpan):
    """A span that remembers what it was told."""

    def __init__(
        self, number: int, name: str, parent: trace.Span, attributes: Attributes, start_time: int | None = None
    ) -> None:
        super().__init__(SpanContext(1, number, is_remote=False, trace_flags=TraceFlags(1)))
        self.name = name
        self.parent = parent
        self.attributes = dict(attributes or {})
        self.status: StatusCode | None = None
        self.error: str | None = None
        self.ended = False
        self.start_time = start_time
        self.end_time: int | None = None

    def set_status(self, status: Any, description: str | None = None) -> None:
        assert isinstance(status, Status)
        self.status, self.error = status.status_code, status.description

    def end(self, end_time: int | None = None) -> None:
        assert not self.ended
        self.ended, self.end_time = True, end_time


class Keeper(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[Kept] = []

    def start_span(self, name: str, context: Any = None, *args: Any, **options: Any) -> trace.Span:
        parent, start_time = trace.get_current_span(context), options.get("start_time")
        self.spans.append(Kept(len(self.spans) + 1, name, parent, options.get("attributes"), start_time))
        return self.spans[-1]


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    keeper = Keeper()
    monkeypatch.setattr(trace, "get_tracer", lambda name, version: keeper)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    yield keeper
    assert all(span.ended for span in keeper.spans)
    assert not trace.get_current_span().get_span_context().is_valid


def agent(script: list[str | BaseException], keeper: Keeper, **options: Any) -> ReAct:
    def look() -> str:
        """Look."""
        keeper.start_span("inside the tool").end()
        return "seen"

    def fail() -> str:
        """Fail."""
        raise ValueError

    options = {"otel": True, **options}
    return ReAct("q -> a", [look, fail], lm=ScriptedModel(script), prompt_format="fields", **options)


def call(name: str) -> list[str | BaseException]:
    return [" Hm.\n", f"Action: {name}\nArguments: {{}}\n"]


def test_a_run_is_a_span_with_its_generations_and_tools_in_it(keeper: Keeper) -> None:
    script = [*call("look"), *call("fail"), *call("finish"), '{"reasoning": "", "a": "x"}']
    agent(script, keeper)(q="secret question")
    run, *others = keeper.spans
    assert run.name == "invoke_agent sureact"
    chat = "chat scripted"
    assert [span.name for span in others] == [
        *(chat, chat, "execute_tool look", "inside the tool"),
        *(chat, chat, "execute_tool fail", chat, chat, "execute_tool finish", chat),
    ]
    parents = {span.name: span.parent for span in others}
    assert parents[chat] is parents["execute_tool look"] is run
    assert isinstance(parents["inside the tool"], Kept)
    assert parents["inside the tool"].name == "execute_tool look"
    assert [span.name for span in others if span.status is StatusCode.ERROR] == ["execute_tool fail"]
    first = others[0].attributes
    assert (first["gen_ai.usage.output_tokens"], first["sureact.part"]) == (len(" Hm.\n"), "think")
    assert "secret" not in repr([span.attributes for span in keeper.spans])


def test_generations_of_one_part_follow_one_another(keeper: Keeper) -> None:
    spans = RunSpans()
    spans.begin("m", "r")
    usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)
    seconds = (StepTimings(prefill_s=1, decode_s=0.5), StepTimings(decode_s=2))
    spans.generations(
        "think",
        [StepOutput(text="", token_ids=(), finish_reason="stop", usage=usage, timings=timings) for timings in seconds],
    )
    spans.close(None)
    first, second = keeper.spans[1:]
    assert first.start_time is not None
    assert second.end_time is not None
    assert first.end_time == second.start_time == second.end_time - 2_000_000_000 == first.start_time + 1_500_000_000


def test_calls_side_by_side_are_spans_of_their_own_in_that_of_the_run(keeper: Keeper) -> None:
    def look(what: str) -> str:
        """Look."""
        keeper.start_span("inside the tool").end()
        if what == "b":
            raise ValueError(what)
        return what

    def written(name: str, **args: str) -> str:
        return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(args)}}}\n</tool_call>'

    calls = [written("look", what="a"), "<tool_call>", written("look", what="b"), ""]
    script = ["Both.\n", *calls, "Done.\n", written("submit", a="x")]
    ReActV2("q -> a", [look], lm=ScriptedModel(script), otel=True)(q="?")
    run = keeper.spans[0]
    tools = [span for span in keeper.spans if span.name == "execute_tool look"]
    assert [span.status for span in tools] == [None, StatusCode.ERROR]
    inside = [span for span in keeper.spans if span.name == "inside the tool"]
    assert all(span.parent is run for span in tools)
    assert [span.parent for span in inside] == [run, run]


def test_an_error_ends_all_spans(keeper: Keeper) -> None:
    with pytest.raises(KeyboardInterrupt):
        agent([*call("look"), KeyboardInterrupt("secret")], keeper)(q="?")
    assert (keeper.spans[0].status, keeper.spans[0].error) == (StatusCode.ERROR, "KeyboardInterrupt")


def test_an_interrupt_in_a_tool_ends_its_span(keeper: Keeper) -> None:
    def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    react = ReAct("q -> a", [stop], lm=ScriptedModel(call("stop")), prompt_format="fields", otel=True)
    with pytest.raises(KeyboardInterrupt):
        react(q="?")
    assert keeper.spans[-1].status is StatusCode.ERROR


def test_nothing_is_told_unless_asked_for(keeper: Keeper) -> None:
    agent([*call("finish"), '{"reasoning": "", "a": "x"}'], keeper, otel=False)(q="?")
    assert keeper.spans == []


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'sureact\[otel\]'"):
        ReAct("q -> a", [], lm=ScriptedModel([]), otel=True)
