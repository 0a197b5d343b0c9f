from typing import Any

import pytest

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.engines.outlines_core import compile_index, compile_with_outlines_core
from sureact.constraints.prepared_schema import JsonSpelling
from sureact.constraints.token_bitmask import allocate_token_bitmask, read_token_ids
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintStateError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary

COMPACT = JsonSpelling(item_separator=",", key_separator=":")
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def state_of(vocabulary: Vocabulary, schema: Any, spelling: JsonSpelling = COMPACT) -> ConstraintState:
    return compile_with_outlines_core(schema, vocabulary, spelling).new_state()


def spells(state: ConstraintState, text: str) -> bool:
    token_ids = list(text.encode())
    return state.accept_tokens(token_ids) == len(token_ids) and state.is_accepting


def allowed(state: ConstraintState, vocabulary: Vocabulary) -> list[int]:
    bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
    state.fill_bitmask(bitmask, 0)
    return read_token_ids(bitmask, 0)


def test_texts_are_compact_or_with_any_whitespace(vocabulary: Vocabulary) -> None:
    assert spells(state_of(vocabulary, PAIR), '{"a":1.5,"b":"é"}')
    assert not spells(state_of(vocabulary, PAIR), '{"a": 1.5}')
    assert spells(state_of(vocabulary, PAIR, JsonSpelling(free_whitespace=True)), '{\n"a" : 1.5 }')


@pytest.mark.parametrize(
    ("spelling", "said"),
    [
        (JsonSpelling(), "separators"),
        (JsonSpelling(free_whitespace=True, any_key_order=True), "key_order"),
        (JsonSpelling(free_whitespace=True, ascii_only=True), "ensure_ascii"),
    ],
)
def test_other_spellings_are_refused(vocabulary: Vocabulary, spelling: JsonSpelling, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        state_of(vocabulary, PAIR, spelling)


def test_values_that_begin_alike_can_all_be_written(vocabulary: Vocabulary) -> None:
    for number in ("1", "12", "123"):
        assert spells(state_of(vocabulary, {"enum": [1, 12, 123]}), number)


def test_the_mask_is_what_single_tokens_say_and_holds_no_control_token(vocabulary: Vocabulary) -> None:
    state = state_of(vocabulary, PAIR)
    one_by_one: list[int] = []
    for token_id in (None, *b'{"a":1,"b":"\xc3\xa9"}'):
        if token_id is not None:
            state.accept_token(token_id)
        one_by_one = [number for number in range(vocabulary.num_logits) if state.check_token(number)]
        assert allowed(state, vocabulary) == one_by_one
        assert not (vocabulary.control_ids - set(vocabulary.eos_ids)) & set(one_by_one)
    assert state.is_terminated
    assert one_by_one == list(vocabulary.eos_ids)


def test_rollback_takes_back_content_and_ends(vocabulary: Vocabulary) -> None:
    state = state_of(vocabulary, PAIR)
    start = allowed(state, vocabulary)
    text = b'{"a":1,"b":"' + b"x" * 50 + b'"}'
    state.accept_tokens(text)
    fork = state.fork()
    state.accept_token(vocabulary.eos_ids[0])
    assert (state.is_terminated, allowed(state, vocabulary)) == (True, list(vocabulary.eos_ids))
    with pytest.raises(ConstraintStateError):
        state.accept_token(ord("3"))
    state.rollback(len(text) + 1)
    assert allowed(state, vocabulary) == start
    assert fork.is_accepting
    with pytest.raises(ConstraintStateError, match="Cannot undo"):
        fork.rollback(len(text) + 1)


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
        state_of(vocabulary, {"type": "array", "items": {"type": "integer", "minimum": 3}})
    assert refused.value.pointer == "/items/minimum"
    with pytest.raises(ConstraintCompileError, match="boolean"):
        state_of(vocabulary, True)
    with pytest.raises(ConstraintCompileError, match="outlines_core cannot compile"):
        compile_index("a(?=b)", vocabulary)
