import json
from typing import Any

import pytest

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.engines.xgrammar import compile_with_xgrammar
from sureact.constraints.prepared_schema import JsonSpelling
from sureact.constraints.token_bitmask import allocate_token_bitmask, read_token_ids
from sureact.errors import ConstraintCompileError, ConstraintStateError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary

xgrammar = pytest.importorskip("xgrammar")

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def state_of(vocabulary: Vocabulary, schema: Any, **spelling: Any) -> ConstraintState:
    return compile_with_xgrammar(schema, vocabulary, JsonSpelling(**spelling)).new_state()


def spells(state: ConstraintState, text: str) -> bool:
    token_ids = list(text.encode())
    return state.accept_tokens(token_ids) == len(token_ids) and state.is_accepting


def allowed(state: ConstraintState, vocabulary: Vocabulary) -> list[int]:
    bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
    state.fill_bitmask(bitmask, 0)
    return read_token_ids(bitmask, 0)


def test_separators_and_whitespace_are_as_asked(vocabulary: Vocabulary) -> None:
    assert spells(state_of(vocabulary, PAIR), '{"a": 1, "b": "x"}')
    assert not spells(state_of(vocabulary, PAIR), '{"a":1}')
    assert spells(state_of(vocabulary, PAIR, item_separator=",", key_separator=":"), '{"a":1,"b":"x"}')
    assert spells(state_of(vocabulary, PAIR, free_whitespace=True), '{ "a" :1}')
    assert spells(state_of(vocabulary, PAIR, any_key_order=True), '{"b": "x", "a": 1}')


def test_the_mask_is_what_single_tokens_say_and_holds_no_control_token(vocabulary: Vocabulary) -> None:
    state = state_of(vocabulary, PAIR)
    one_by_one: list[int] = []
    for token_id in (None, *b'{"a": 1, "b": "x"}'):
        if token_id is not None:
            state.accept_token(token_id)
        one_by_one = [number for number in range(vocabulary.num_logits) if state.check_token(number)]
        assert allowed(state, vocabulary) == one_by_one
        assert not (vocabulary.control_ids - set(vocabulary.eos_ids)) & set(one_by_one)
    assert state.is_terminated
    assert one_by_one == list(vocabulary.eos_ids)


def test_rollback_takes_back_content_and_ends(vocabulary: Vocabulary) -> None:
    state = state_of(vocabulary, {"type": "integer"})
    start = allowed(state, vocabulary)
    state.accept_tokens(b"12")
    fork = state.fork()
    state.accept_token(vocabulary.eos_ids[0])
    assert (state.is_terminated, allowed(state, vocabulary)) == (True, list(vocabulary.eos_ids))
    with pytest.raises(ConstraintStateError):
        state.accept_token(ord("3"))
    state.rollback(3)
    assert allowed(state, vocabulary) == start
    assert fork.check_token(ord("3"))
    assert not fork.is_terminated
    with pytest.raises(ConstraintStateError, match="Cannot undo"):
        fork.rollback(3)


def test_nothing_is_forced_and_illegal_tokens_raise(vocabulary: Vocabulary) -> None:
    state = state_of(vocabulary, PAIR)
    assert state.forced_tokens() == []
    for token_id in (-1, vocabulary.num_logits, ord("x"), vocabulary.eos_ids[0]):
        assert not state.check_token(token_id)
        with pytest.raises(ConstraintStateError, match="not legal"):
            state.fork().accept_token(token_id)
    with pytest.raises(ConstraintStateError, match="words"):
        state.fill_bitmask(allocate_token_bitmask(1, 32), 0)


def test_refusals_name_the_keyword(vocabulary: Vocabulary) -> None:
    with pytest.raises(UnsupportedSchemaError) as refused:
        state_of(vocabulary, {"type": "array", "items": {"type": "string", "format": "date"}})
    assert refused.value.pointer == "/items/format"
    with pytest.raises(ConstraintCompileError, match="xgrammar cannot compile"):
        state_of(vocabulary, {"type": "string", "pattern": "("})


@pytest.mark.parametrize("value", [0, -5, 12])
def test_what_it_spells_is_what_the_schema_says(vocabulary: Vocabulary, value: int) -> None:
    schema = {"type": "integer", "minimum": -4, "maximum": 11}
    assert spells(state_of(vocabulary, schema), json.dumps(value)) == (-4 <= value <= 11)
