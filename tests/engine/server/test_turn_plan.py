import asyncio
from typing import Any

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.api_error import ApiError
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.request_fields import read_fields
from sureact.server.server_config import ServerConfig
from sureact.server.serving import Serving
from sureact.server.turn_plan import TurnPlan, plan_turn

HI = [{"role": "user", "content": "hi"}]
BAD = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def tool(**parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", **parameters}}}


def plan(engine: ScriptedEngine, **body: Any) -> TurnPlan:
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    return asyncio.run(plan_turn(serving, read_fields({"messages": HI, **body}, CHAT_FIELDS), None))


def test_a_chat_may_fill_the_context_unless_told_otherwise(engine: ScriptedEngine) -> None:
    whole = plan(engine)
    assert whole.params.max_tokens == engine.context_len - len(whole.prompt_ids)
    assert plan(engine, max_tokens=5).params.max_tokens == 5


def test_a_plain_chat_has_neither_constraint_nor_calls(engine: ScriptedEngine) -> None:
    made = plan(engine)
    assert (made.constraint, made.calls, made.tools.choice) == (None, None, "none")
    assert made.think_tags is not None


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"max_tokens": 5000}, "messages", "including max_tokens=5,000"),
        ({"messages": [{"role": "user", "content": "a " * 9000}]}, "messages", "Shorten it"),
        ({"response_format": SCHEMA, "stop": "a"}, "stop", "cannot be combined"),
        ({"response_format": SCHEMA, "ignore_eos": True}, "ignore_eos", "cannot be combined"),
        ({"response_format": SCHEMA, "tools": [tool()]}, "response_format.json_schema.schema", "with tools"),
        ({"response_format": SCHEMA, "structured_outputs": {"regex": "a"}}, "structured_outputs.regex", "both"),
        ({"structured_outputs": {"regex": "(a"}}, "structured_outputs.regex", "."),
        ({"structured_outputs": {"grammar": "nonsense"}}, "structured_outputs.grammar", "."),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "."),
        ({"structured_outputs": {"json": BAD}}, "structured_outputs.json", "."),
        ({"tools": [tool(**BAD)]}, "tools[0].function.parameters", "."),
        ({"tools": [tool(type="string")]}, "tools[0].function.parameters", "must be 'object'"),
        ({"tools": [tool()], "min_tokens": 3}, "min_tokens", "tools"),
        ({"tools": [tool()], "ignore_eos": True}, "ignore_eos", "tools"),
        ({"min_tokens": 3}, "min_tokens", "thinks"),
    ],
)
def test_what_cannot_be_honored_is_refused_before_anything_runs(
    engine: ScriptedEngine, body: dict[str, Any], param: str, words: str
) -> None:
    before = engine.stats().num_requests
    with pytest.raises(ApiError, match=words) as refused:
        plan(engine, **body)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert engine.stats().num_requests == before


def test_a_keyword_that_cannot_be_enforced_is_told_with_its_pointer(engine: ScriptedEngine) -> None:
    for body in ({"structured_outputs": {"json": BAD}}, {"tools": [tool(**BAD)]}):
        with pytest.raises(ApiError) as refused:
            plan(engine, **body)
        assert refused.value.pointer == "/properties/a/$ref"
