"""What is taken for a value that runs on, and what ends it."""

import pytest

from sureact.constraints.early_end import (
    NO_LENGTHS,
    Closing,
    DeclaredLengths,
    Runaway,
    declared_lengths,
    end_of_value,
    find_runaway,
)
from sureact.constraints.json_outline import Outline
from sureact.constraints.json_schema import json_schema
from sureact.outputs import EarlyEnd
from sureact.sampling_params import RunawayLimits
from sureact.tokens.vocabulary import Vocabulary

LIMITS = RunawayLimits(repeated_tokens=24, string_characters=20, number_characters=10, array_items=12)


def runaway(vocabulary: Vocabulary, text: str, limits: RunawayLimits, lengths: DeclaredLengths) -> Runaway | None:
    data = text.encode()
    return find_runaway(list(data), Outline().read(data), vocabulary, limits, lengths)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["' + "äöüßéèêàâîïôûçñåøæœ", None),
        ('["' + "abcdefghijklmnopqrstu", Runaway("string_length", 2)),
        ("[12345678901", Runaway("number_length", 2)),
        ("[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, ", Runaway("array_length", 1)),
        ('{"a": "' + "x" * 25, Runaway("repetition", 2)),
        ('["ab' + '", "ab' * 10, Runaway("repetition", 1)),
        ("", None),
        ("[]", None),
    ],
)
def test_the_value_that_holds_what_runs_on_is_found(vocabulary: Vocabulary, text: str, found: Runaway | None) -> None:
    assert runaway(vocabulary, text, LIMITS, NO_LENGTHS) == found


def test_a_limit_that_is_none_or_below_what_the_schema_names_finds_nothing(vocabulary: Vocabulary) -> None:
    off = RunawayLimits(repeated_tokens=None, string_characters=None, number_characters=None, array_items=None)
    for text in ('["' + "x" * 99, "[" + "1" * 99, "[" + "1, " * 99):
        assert runaway(vocabulary, text, LIMITS, NO_LENGTHS) is not None
        assert runaway(vocabulary, text, off, NO_LENGTHS) is None
    lengths = DeclaredLengths(string=50, array=13)
    assert runaway(vocabulary, '["abcdefghijklmnopqrstu', LIMITS, lengths) is None
    assert runaway(vocabulary, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, ", LIMITS, lengths) is None


def test_the_largest_lengths_of_a_schema_are_read_from_the_key_of_its_constraint() -> None:
    schema = {"type": "array", "maxItems": 7, "items": {"type": "string", "minLength": 5, "maxLength": 300}}
    assert declared_lengths(json_schema(schema).cache_key) == DeclaredLengths(300, 7)
    assert declared_lengths(json_schema({}).cache_key) == NO_LENGTHS


def test_a_closing_says_what_comes_and_for_how_long() -> None:
    early_end = EarlyEnd("repetition", 5, "")
    closing = Closing(5, (1, 2), "quote", 3, early_end)
    assert [closing.covers(count) for count in range(4, 10)] == [False, True, True, True, False, False]
    assert [closing.forced_ids(count) for count in (5, 6, 7)] == [(1, 2), (2,), ()]
    assert closing._replace(ender="end").covers(100)
    assert not closing._replace(ender=None).covers(7)


def test_a_string_in_an_array_that_runs_on_ends_with_the_array(vocabulary: Vocabulary) -> None:
    state = json_schema({"type": "array", "items": {"type": "string"}}).compile(vocabulary).new_state()
    text = b'["ab", "ab'
    for byte in text:
        state.accept_token(byte)
    outline = Outline().read(text)
    closing = end_of_value(state, vocabulary, list(text), outline, Runaway("repetition", 1))
    assert closing == Closing(10, tuple(b'"]'), None, -1, EarlyEnd("repetition", 10, ""))
    closing = end_of_value(state, vocabulary, list(text), outline, Runaway("string_length", 2))
    assert closing == Closing(10, (), "quote", ord('"'), EarlyEnd("string_length", 10, "/1"))
