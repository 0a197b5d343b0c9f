"""What decoders share: the schema of a call, the stops around it."""

import json

import pytest
from jsonschema import Draft202012Validator

from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.errors import ConstraintStateError
from sureact.evaluation.scoring.call_decoder import (
    FreeDecoder,
    GrammarDecoder,
    OwnDecoder,
    calls_schema,
    closing_stops,
    opening_stops,
)
from sureact.evaluation.scoring.outlines_schema import OutlinesSchema


def look(word: str) -> str:
    """Look up."""
    return word


def count(number: int) -> int:
    """Count."""
    return number


TOOLS = {"look": Tool(look), "count": Tool(count)}


def test_the_schema_holds_each_tool_with_its_own_arguments() -> None:
    judge = Draft202012Validator(calls_schema(TOOLS))
    assert judge.is_valid({"name": "count", "arguments": {"number": 1}})
    assert not judge.is_valid({"name": "look", "arguments": {"number": 1}})
    assert not judge.is_valid({"name": "find", "arguments": {}})
    assert "anyOf" not in calls_schema({"look": TOOLS["look"]})


def test_stops_leave_the_session_as_it_was() -> None:
    session = ScriptedModel([]).session()
    session.append("text")
    assert (258,) in opening_stops(session)
    assert (259,) in closing_stops(session)
    assert session.text == "text"


def test_a_name_that_is_no_tool_cannot_be_written_under_our_grammar() -> None:
    session = ScriptedModel(['<tool_call>\n{"name": "find"']).session()
    with pytest.raises(ConstraintStateError):
        OwnDecoder().decode(session, TOOLS, is_bare=False)


def test_an_answer_is_an_object_or_nothing() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    assert FreeDecoder().answer(ScriptedModel(['Here: {"answer": 3}.']).session(), schema)[0] == {"answer": 3}
    assert FreeDecoder().answer(ScriptedModel(["three"]).session(), schema)[0] is None
    decoder = GrammarDecoder(OutlinesSchema.of)
    assert decoder.answer(ScriptedModel([json.dumps({"answer": 3})]).session(), schema)[0] == {"answer": 3}
    with pytest.raises(NotImplementedError):
        OwnDecoder().answer(ScriptedModel([]).session(), schema)
