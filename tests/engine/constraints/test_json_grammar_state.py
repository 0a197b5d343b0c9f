from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.call_grammar import ToolCallBranch, tool_call_grammar
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.constraints.token_bitmask import allocate_token_bitmask, is_token_allowed
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]
StateOf = Callable[..., ConstraintState]

STRING = json_schema({"type": "string"})


@pytest.mark.parametrize("text", [r'"\/"', r'"a\/b\/"', r'"\\\/"', r'"\\/"', r'"\"\/"', r'"\/\u002f/"', '"/"'])
def test_a_slash_may_be_escaped(text: str, spells: Spells) -> None:
    assert spells(STRING, text)
    assert spells(json_schema({}), f'{{"k": [{text}]}}')
    call = tool_call_grammar([ToolCallBranch("t", {"properties": {"a": {}}})], prefix="", delimiter=" ", suffix=";")
    assert spells(call, f't {{"a": {text}}};')


@pytest.mark.parametrize("text", [r'"\\\"', r'"\ /"', r'"\\', r"\/", r'"\x/"'])
def test_other_backslashes_stay_what_they_are(text: str, spells: Spells) -> None:
    assert not spells(STRING, text)


def test_the_length_of_an_escaped_slash_is_one(spells: Spells) -> None:
    assert spells(json_schema({"type": "string", "maxLength": 2}), r'"\/\/"')
    assert not spells(json_schema({"type": "string", "maxLength": 1}), r'"\/\/"')
    assert not spells(json_schema({"type": "string", "minLength": 2}), r'"\/"')


def test_constants_keep_their_one_spelling(spells: Spells) -> None:
    assert spells(json_schema({"const": "a/b"}), '"a/b"')
    assert not spells(json_schema({"const": "a/b"}), r'"a\/b"')


def test_a_slash_after_a_backslash_is_in_the_mask(state_of: StateOf, vocabulary: Vocabulary) -> None:
    for text, is_allowed in (('"a\\', True), ('"a\\\\', True), ('"a\\"', True), ('{"a\\', True), ("", False)):
        state = state_of(json_schema(True), text)
        bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
        state.fill_bitmask(bitmask, 0)
        assert is_token_allowed(bitmask, 0, ord("/")) is is_allowed, text
        assert state.check_token(ord("/")) is is_allowed, text


def test_regexes_are_not_json(spells: Spells) -> None:
    assert spells(regex(r"\\[a-z]"), "\\a")
    assert not spells(regex(r"\\[a-z]|/"), "\\/")


@given(st.lists(st.sampled_from([*b'\\/"ab', 260]), max_size=12), st.integers(0, 12))
def test_rolling_back_over_escaped_slashes_is_exact(vocabulary: Vocabulary, tokens: list[int], num_back: int) -> None:
    state = STRING.compile(vocabulary).new_state()
    state.accept_token(ord('"'))
    accepted = state.accept_tokens(tokens)
    one_by_one = STRING.compile(vocabulary).new_state()
    one_by_one.accept_token(ord('"'))
    allowed = [(one_by_one.check_token(t) and (one_by_one.accept_token(t) or True)) for t in tokens[: accepted + 1]]
    assert allowed[:accepted] == [True] * accepted
    fork = state.fork()
    kept = max(0, accepted - num_back)
    state.rollback(accepted - kept)
    fresh = STRING.compile(vocabulary).new_state()
    assert fresh.accept_tokens([ord('"'), *tokens[:kept]]) == kept + 1
    probes = [*range(256), 260, 261]
    assert [state.check_token(t) for t in probes] == [fresh.check_token(t) for t in probes]
    assert state.accept_tokens(tokens[kept:]) == accepted - kept
    assert [state.check_token(t) for t in probes] == [fork.check_token(t) for t in probes]
