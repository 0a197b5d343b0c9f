from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import Attributes

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.errors import ConfigError


class Kept(NonRecordingSpan):
    """A span that remembers what it was told."""

    def __init__(self, number: int, name: str, parent: trace.Span, attributes: Attributes) -> None:
        super().__init__(SpanContext(1, number, is_remote=False, trace_flags=TraceFlags(1)))
        self.name = name
        self.parent = parent
        self.attributes = dict(attributes or {})
        self.status: StatusCode | None = None
        self.error: str | None = None
        self.ended = False

    def set_status(self, status: Any, description: str | None = None) -> None:
        assert isinstance(status, Status)
        self.status, self.error = status.status_code, status.description

    def end(self, end_time: int | None = None) -> None:
        assert not self.ended
        self.ended = True


class Keeper(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[Kept] = []

    def start_span(self, name: str, context: Any = None, *args: Any, **options: Any) -> trace.Span:
        self.spans.append(Kept(len(self.spans) + 1, name, trace.get_current_span(context), options.get("attributes")))
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
