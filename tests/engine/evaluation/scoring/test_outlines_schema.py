"""The peer's constraint is outlines' own."""

import pytest

from sureact.agent.scripted_model import byte_vocabulary
from sureact.errors import ConstraintCompileError
from sureact.evaluation.scoring.outlines_schema import OutlinesSchema

SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}


def accepts(constraint: OutlinesSchema, text: str) -> bool:
    state = constraint.compile(byte_vocabulary()).new_state()
    for byte in text.encode():
        if not state.check_token(byte):
            return False
        state.accept_token(byte)
    return state.is_accepting


@pytest.mark.parametrize(
    ("text", "is_accepted"), [('{"a": "x"}', True), ('{"a":"y"}', True), ('{"a": "z"}', False), ("{}", False)]
)
def test_texts_of_the_schema_are_accepted(text: str, is_accepted: bool) -> None:
    assert accepts(OutlinesSchema.of(SCHEMA), text) == is_accepted


def test_what_outlines_refuses_is_an_error_of_the_constraint() -> None:
    with pytest.raises(ConstraintCompileError, match="outlines"):
        OutlinesSchema.of({"type": "array", "contains": {"type": "nothing"}}).compile(byte_vocabulary())


def test_schemas_differ_by_their_keys() -> None:
    assert OutlinesSchema.of(SCHEMA).cache_key != OutlinesSchema.of({}).cache_key
