"""A guarded state keeps what every constraint state promises, and never comes back to a dead end."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.grammar import grammar
from sureact.constraints.guards.guarded_state import GuardedConstraint, GuardedState
from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema
from sureact.constraints.token_bitmask import allocate_token_bitmask, read_token_ids
from sureact.errors import ConstraintStateError
from sureact.tokens.vocabulary import Vocabulary

EOS_ID = 256
TEXT_IDS = [*b'{}[],:"abcd12nulltrue\\ 0', EOS_ID, *range(260, 270)]
LONG_TOKENS = {260: b"ab", 261: b"abc"}
ANY_JSON = 'start: %json {"x-guidance": {"whitespace_flexible": false, "json_allow_general_unicode_escapes": true}}'
UNIQUE: Schema = {"type": "array", "items": {"enum": ["a", "ab", "abc"]}, "uniqueItems": True}
EITHER: Schema = {
    "type": "object",
    "properties": {"a": {"enum": ["ab", 1]}, "b": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
}
USED_UP: Schema = {"patternProperties": {"^ab?$": {"type": "null"}}, "additionalProperties": False, "type": "object"}
SCHEMAS = [UNIQUE, EITHER, USED_UP, {"type": "integer", "not": {"const": 1}}, {}]


def guarded(vocabulary: Vocabulary, schema: Schema, grammar_text: str = ANY_JSON) -> GuardedConstraint:
    return GuardedConstraint(grammar(grammar_text).compile(vocabulary), JsonGuard(NormalSchema(schema, {})), vocabulary)


def new_state(vocabulary: Vocabulary, schema: Schema, text: str = "", grammar_text: str = ANY_JSON) -> GuardedState:
    state = guarded(vocabulary, schema, grammar_text).new_state()
    for byte in text.encode():
        state.accept_token(byte)
    return state


def allowed(state: ConstraintState) -> list[int]:
    return [token_id for token_id in TEXT_IDS if state.check_token(token_id)]


def forced_text(state: GuardedState) -> bytes:
    token_ids = state.forced_tokens()
    fork = state.fork()
    for token_id in token_ids:
        fork.accept_token(token_id)
    return b"".join(LONG_TOKENS.get(token_id) or bytes([token_id]) for token_id in token_ids)


def facts(state: ConstraintState) -> tuple[Any, ...]:
    return (allowed(state), state.is_accepting, state.is_terminated, state.num_settled_tokens, state.forced_tokens())


def walk(state: ConstraintState, random_: random.Random, num_tokens: int) -> list[tuple[Any, ...]]:
    """Accept random tokens; return the facts before each."""
    passed: list[tuple[Any, ...]] = []
    for _ in range(num_tokens):
        token_ids = allowed(state)
        if not token_ids:
            break
        passed.append(facts(state))
        state.accept_token(random_.choice(token_ids))
    return passed


@settings(max_examples=40)
@given(schema=st.sampled_from(SCHEMAS), seed=st.integers(0, 1 << 20), num_undone=st.integers(0, 12))
def test_rollback_restores_every_fact(vocabulary: Vocabulary, schema: Schema, seed: int, num_undone: int) -> None:
    state = guarded(vocabulary, schema).new_state()
    passed = walk(state, random.Random(seed), 12)
    passed.append(facts(state))
    num_undone = min(num_undone, len(passed) - 1)
    state.rollback(num_undone)
    assert facts(state) == passed[-1 - num_undone]


@settings(max_examples=40)
@given(schema=st.sampled_from(SCHEMAS), seed=st.integers(0, 1 << 20))
def test_a_fork_goes_its_own_way(vocabulary: Vocabulary, schema: Schema, seed: int) -> None:
    random_ = random.Random(seed)
    state = guarded(vocabulary, schema).new_state()
    passed = walk(state, random_, 6)
    before = facts(state)
    fork = state.fork()
    assert facts(fork) == before
    walk(fork, random_, 6)
    assert facts(state) == before
    fork = state.fork()
    state.rollback(len(passed))
    assert facts(fork) == before
    fork.rollback(len(passed))
    assert facts(fork) == facts(state)


@settings(max_examples=40)
@given(schema=st.sampled_from(SCHEMAS), seed=st.integers(0, 1 << 20))
def test_checking_changes_nothing_and_says_what_accepting_does(
    vocabulary: Vocabulary, schema: Schema, seed: int
) -> None:
    random_ = random.Random(seed)
    state = guarded(vocabulary, schema).new_state()
    walk(state, random_, random_.randrange(8))
    before = facts(state)
    for token_id in random_.sample(TEXT_IDS, len(TEXT_IDS)):
        fork = state.fork()
        if state.check_token(token_id):
            fork.accept_token(token_id)
        else:
            with pytest.raises(ConstraintStateError, match="not legal here"):
                fork.accept_token(token_id)
    assert facts(state) == before


@settings(max_examples=40)
@given(schema=st.sampled_from(SCHEMAS), seed=st.integers(0, 1 << 20))
def test_settled_tokens_are_never_taken_back(vocabulary: Vocabulary, schema: Schema, seed: int) -> None:
    """Written at random, with a step back out of each dead end, until the text ends."""
    random_ = random.Random(seed)
    state = guarded(vocabulary, schema).new_state()
    num_tokens = num_settled = num_rollbacks = 0
    while not state.is_terminated and num_tokens < 40 and num_rollbacks < 200:
        settled = state.num_settled_tokens
        assert settled is not None
        assert num_settled <= settled <= num_tokens
        num_settled = settled
        token_ids = allowed(state)
        if token_ids:
            state.accept_token(random_.choice(token_ids))
            num_tokens += 1
        else:
            assert num_tokens > num_settled
            state.mark_dead_end()
            state.rollback(1)
            num_tokens, num_rollbacks = num_tokens - 1, num_rollbacks + 1
    if state.is_terminated:
        assert state.num_settled_tokens is None


def test_a_dead_end_is_refused_in_every_tokenization_and_nothing_else_is(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {}, '["ab')
    state.mark_dead_end()
    state.rollback(2)
    assert not state.check_token(260)  # ab
    assert not state.check_token(261)  # abc, which goes through it
    assert state.check_token(ord("a"))
    state.accept_token(ord("a"))
    assert not state.check_token(ord("b"))
    assert state.check_token(ord("c"))
    assert state.check_token(ord('"'))
    fork = state.fork()
    assert not fork.check_token(ord("b"))
    state.accept_token(ord("c"))
    assert state.check_token(260)  # another place
    fork.mark_dead_end()
    fork.rollback(1)
    assert not fork.check_token(ord("a"))
    state.rollback(1)
    assert state.check_token(ord("c"))


def test_forced_tokens_stop_before_what_the_guard_refuses(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {"maxLength": 4}, grammar_text='start: "\\"zbcd" /[xy]/ "\\""')
    assert forced_text(state) == b'"zbcd'
    state = new_state(vocabulary, {"maxLength": 3}, grammar_text='start: "\\"zbcd" /[xy]/ "\\""')
    assert forced_text(state) == b'"zbc'
    assert state.check_token(ord('"'))


def test_forced_tokens_stop_before_a_dead_end(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {}, '"zz', grammar_text='start: "\\"zzyy" /[xy]/ "\\""')
    state.mark_dead_end()
    state.rollback(2)
    assert forced_text(state) == b"z"


def test_the_mask_is_the_grammars(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, UNIQUE, '["')
    bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
    state.fill_bitmask(bitmask, 0)
    assert set(allowed(state)) <= set(read_token_ids(bitmask, 0))


def test_the_text_ends_where_grammar_and_guard_let_it(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {"required": ["a"]}, '{"a":1')
    assert not state.is_accepting
    assert not state.check_token(EOS_ID)
    state.accept_token(ord("}"))
    assert state.is_accepting
    assert state.is_terminated
    assert state.num_settled_tokens is None
    state.accept_token(EOS_ID)
    assert state.is_terminated
    state.rollback(2)
    assert not state.is_terminated
    assert not state.is_accepting


def test_a_text_that_the_grammar_ends_and_the_guard_refuses_has_not_ended(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {"not": {"const": 1}}, "1", grammar_text='start: "1" | "2"')
    assert not state.is_terminated
    assert not state.is_accepting
    assert not state.check_token(EOS_ID)
    assert state.num_settled_tokens == 0
    state.mark_dead_end()
    state.rollback(1)
    assert not state.check_token(ord("1"))
    state.accept_token(ord("2"))
    assert state.is_terminated


def test_a_number_at_the_top_ends_at_its_end_only(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {"type": "integer", "multipleOf": 5}, "12")
    assert not state.check_token(EOS_ID)
    state.accept_token(ord("5"))
    assert state.check_token(EOS_ID)


def test_characters_may_be_cut_between_tokens(vocabulary: Vocabulary) -> None:
    state = new_state(vocabulary, {"enum": ["é", "娃"]}, '"')
    first, second = "é".encode()
    state.accept_token(first)
    assert not state.check_token(ord("x"))
    assert state.check_token(second)
    state.accept_token(second)
    assert [chr(token_id) for token_id in allowed(state)] == ['"']
    state.rollback(2)
    assert state.check_token("娃".encode()[0])


def test_a_named_control_token_is_no_text(named_vocabulary: Vocabulary) -> None:
    call = 'start: <tool_call> %json {"x-guidance": {"whitespace_flexible": false}} </tool_call>'
    state = new_state(named_vocabulary, {"required": ["a"]}, grammar_text=call)
    state.accept_token(257)
    for byte in b'{"a":1':
        state.accept_token(byte)
    assert not state.check_token(258)
    state.accept_token(ord("}"))
    assert not state.is_terminated
    state.accept_token(258)
    assert state.is_terminated
    assert facts(state.fork()) == facts(state)
    state.rollback(9)
    assert not state.check_token(ord("{"))
    assert state.check_token(257)


@pytest.mark.parametrize("token_id", [-1, 258, 10_000, 257])
def test_an_illegal_id_is_refused_with_its_number(vocabulary: Vocabulary, token_id: int) -> None:
    state = new_state(vocabulary, {})
    assert not state.check_token(token_id)
    with pytest.raises(ConstraintStateError, match=f"Token {token_id}"):
        state.accept_token(token_id)


def test_more_tokens_than_there_are_cannot_be_undone(vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintStateError, match="Cannot undo 2 tokens"):
        new_state(vocabulary, {}, "1").rollback(2)


def test_states_of_one_constraint_are_independent(vocabulary: Vocabulary) -> None:
    constraint = guarded(vocabulary, UNIQUE)
    assert constraint.is_guarded
    first, second = constraint.new_state(), constraint.new_state()
    for byte in b'["ab","a"':
        first.accept_token(byte)
    assert second.num_settled_tokens == 0
    for byte in b'["a"':
        second.accept_token(byte)
    assert allowed(first) == allowed(second)
