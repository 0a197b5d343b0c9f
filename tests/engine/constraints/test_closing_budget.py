"""A text is ended when its tokens are only just enough, and not before."""

import pytest

from sureact.constraints.closing_budget import ClosingBudget
from sureact.constraints.constraint import ConstraintState
from sureact.constraints.json_outline import Outline
from sureact.constraints.json_schema import json_schema
from sureact.tokens.vocabulary import Vocabulary

EOS_ID = 256


@pytest.fixture
def in_string(vocabulary: Vocabulary) -> ConstraintState:
    """A position in a string of an object that needs a number too."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
    state = json_schema(schema, additional_properties="closed").compile(vocabulary).new_state()
    for byte in b'{"a": "':
        state.accept_token(byte)
    return state


def outline_of(token_ids: list[int]) -> Outline:
    return Outline().read(bytes(token_ids))


def test_it_is_ended_with_a_few_tokens_to_spare(vocabulary: Vocabulary, in_string: ConstraintState) -> None:
    budget, token_ids = ClosingBudget(in_string, vocabulary, 60), list(b'{"a": "')
    while (closing := budget.closing_at(token_ids, lambda: outline_of(token_ids))) is None:
        in_string.accept_token(ord("x"))
        token_ids.append(ord("x"))
        assert len(token_ids) < 60
    assert in_string.accept_tokens(closing.token_ids) == len(closing.token_ids)
    assert in_string.is_accepting
    assert 56 <= len(token_ids) + len(closing.token_ids) <= 60
    assert closing.early_end.reason == "max_tokens"


def test_far_from_the_end_nothing_is_judged(vocabulary: Vocabulary, in_string: ConstraintState) -> None:
    budget = ClosingBudget(in_string, vocabulary, 600)
    assert not budget.is_close(7)
    assert budget.closing_at([0] * 200, Outline) is None
    assert budget.is_close(560)


def test_what_takes_more_than_half_of_the_rest_to_end_is_judged_early(vocabulary: Vocabulary) -> None:
    state = json_schema({"const": "x" * 100}).compile(vocabulary).new_state()
    budget = ClosingBudget(state, vocabulary, 150)
    assert budget.closing_at([], Outline) is None
    assert budget.is_close(1)
    budget.rollback(0)
    assert not budget.is_close(1)


def test_what_cannot_be_ended_any_more_is_given_up_until_it_is_taken_back(vocabulary: Vocabulary) -> None:
    state = json_schema({"const": "x" * 100}).compile(vocabulary).new_state()
    budget = ClosingBudget(state, vocabulary, 40)
    assert budget.closing_at([], Outline) is None
    assert not budget.is_close(39)
    copy = budget.fork(state.fork())
    budget.rollback(0)
    assert budget.is_close(39)
    assert not copy.is_close(39)


def test_a_token_after_which_there_is_no_room_for_the_end_is_refused(vocabulary: Vocabulary) -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "array", "minItems": 20, "items": {"const": 1}}]}
    state = json_schema(schema).compile(vocabulary).new_state()
    budget = ClosingBudget(state, vocabulary, 30)
    budget.closing_at([], Outline)
    assert budget.is_affordable(0, ord("n"), Outline)
    assert not budget.is_affordable(0, ord("["), Outline)
    assert budget.is_affordable(0, EOS_ID, Outline)
