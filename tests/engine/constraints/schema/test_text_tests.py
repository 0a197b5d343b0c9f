"""Patterns are searched as JSON Schema has it, whatever the text; formats are what jsonschema says."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher

from sureact.constraints.schema import text_tests
from sureact.constraints.schema.text_tests import (
    PatternReader,
    format_holds,
    is_exact_in_json,
    pattern_error,
    pattern_matches,
)
from sureact.errors import ConstraintStateError

PATTERNS = (
    "a",
    "^a",
    "b$",
    "^$",
    "",
    "a|b",
    "^a|b$",
    "^[ab]{2,3}$",
    "^.$",
    r"\n",
    r"^[^a]*$",
    '"',
    r"\\",
    "é|娃",
    "^a{2}b*$",
)


TEXTS = st.text('ab\n"\\é娃😀\x00\x1f\x7f ', max_size=5)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.sampled_from(PATTERNS), TEXTS)
def test_a_pattern_is_searched_for_as_re_does(pattern: str, text: str) -> None:
    assert pattern_matches(pattern, text) == bool(re.search(pattern.replace("$", r"\Z"), text))


@given(st.sampled_from(PATTERNS), st.text('ab\n"\\é娃\x7f', max_size=6), st.lists(st.integers(0, 6), max_size=3))
def test_a_reader_says_the_same_of_a_text_in_pieces(pattern: str, text: str, cuts: list[int]) -> None:
    reader = PatternReader(pattern)
    is_possible = all(map(reader.read, pieces_of(text, cuts)))
    assert is_possible == pattern_matches(pattern, text, is_open=True)
    assert (is_possible and reader.end()) == pattern_matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "is_possible"),
    [
        ("^ab$", "", True),
        ("^ab$", "a", True),
        ("^ab$", "b", False),
        ("^ab$", "abc", False),
        ("ab", "zz", True),
        ("^$", "a", False),
        ("^(a|b)c", "b", True),
        ("^(a|b)c", "ba", False),
    ],
)
def test_a_pattern_that_can_still_occur_is_open(pattern: str, text: str, is_possible: bool) -> None:
    assert pattern_matches(pattern, text, is_open=True) == is_possible


@given(st.sampled_from((*PATTERNS, "^(?!a)", "^(?=.*b)(?!.*é)")), TEXTS, TEXTS)
def test_what_is_certain_comes_true_whatever_comes(pattern: str, text: str, more: str) -> None:
    reader = PatternReader(pattern, sees_certainty=True)
    if reader.read(text):
        assert pattern_matches(pattern, text + more) or not reader.is_certain
    else:
        assert not pattern_matches(pattern, text + more)


@pytest.mark.parametrize(
    ("pattern", "text", "is_certain"),
    [
        ("^a", "", False),
        ("^a", "a", True),
        ("a", "bba", True),
        ("a$", "a", False),
        ("", "", True),
        ("^.*$", "", False),
        ("^a|b$", "a", True),
        ("^[^a]", "\n", True),
        ("^(?=.*b)a", "ab", True),
        ("^(?=.*b)a", "a", False),
        ("^(?!a)", "b", True),
        ("^(?!a)", "", False),
        ("^(?!.*a)b", "b", False),
        ("^(?:a$|b)", "b", True),
        ("^(?:a$|b)", "", False),
    ],
)
def test_a_pattern_is_certain_from_the_character_that_decides(pattern: str, text: str, is_certain: bool) -> None:
    reader = PatternReader(pattern, sees_certainty=True)
    assert reader.read(text)
    assert reader.is_certain == is_certain


def test_certainty_is_seen_only_where_it_is_asked_for() -> None:
    reader = PatternReader("^a")
    assert reader.read("a")
    assert not reader.is_certain


def test_what_must_not_occur_is_refused_as_soon_as_it_must_occur() -> None:
    assert not PatternReader("^(?!a)").read("a")
    assert not PatternReader("^(?!.*b)a").read("ab")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        ('^[^,"]$', '"', False),
        (r"^[^\\]$", "\\", False),
        (r"\d", "٣", False),
        (r"^\w$", "é", False),
        (r"^\p{L}$", "é", True),
        ("^.$", "\n", False),
    ],
)
def test_the_syntax_is_that_of_ecma_262(pattern: str, text: str, matches: bool) -> None:
    assert pattern_matches(pattern, text) == matches


@pytest.mark.parametrize(
    ("part", "is_exact"),
    [
        ('^[^"]$', False),
        (r"^a[^,\\]*$", False),
        ('^(?:[^a-z"]|x)$', False),
        ("[^a]", True),
        (r'["\\]', True),
        ("^[ -!#-~]$", True),
        (r"\[^a", True),
        (r'[\Z"]', True),
    ],
)
def test_a_regex_for_json_strings_takes_quotes_for_control_characters(part: str, is_exact: bool) -> None:
    assert is_exact_in_json(part) == is_exact


def test_a_lone_surrogate_is_no_text() -> None:
    assert not pattern_matches(".", "\ud800")
    assert not PatternReader(".").read("\udc00")


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", r"\Z"])
def test_a_pattern_that_no_automaton_tests_has_an_error(pattern: str) -> None:
    assert pattern_error(pattern)
    assert not pattern_error("^a$")


def test_a_pattern_that_backtracking_chokes_on_takes_linear_time() -> None:
    start = time.thread_time()
    assert not pattern_matches("^(a+)+$", "a" * 20_000 + "!")
    assert time.thread_time() - start < 5


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("date", "2024-02-29", True),
        ("date", "2023-02-29", False),
        ("ipv4", "127.0.0.1", True),
        ("ipv4", "127.0.0.256", False),
        ("uuid", "c303282d-f2e6-46ca-a04a-35d3d873712d", True),
        ("uuid", "c303282d", False),
    ],
)
def test_known_formats_hold_or_do_not(name: str, text: str, holds: bool) -> None:
    assert format_holds(name, text) == holds


def test_a_regex_that_counts_far_is_tested_whatever_it_takes() -> None:
    assert pattern_matches("a{1000}", "b" + "a" * 1000)
    assert not pattern_matches("a{1000}", "a" * 999 + "ba")


def test_where_a_test_takes_too_much_nobody_is_told_a_guess() -> None:
    bomb = "^(.{0,5000}){0,5000}$"
    assert pattern_error(bomb) == ""
    with pytest.raises(ConstraintStateError, match="takes too much to be tested on this text: lexer error"):
        pattern_matches(bomb, "a" * 500)


def broken_matcher(_: str) -> LLMatcher:
    return text_tests._matcher("(")  # pyright: ignore[reportPrivateUsage]


def test_where_only_certainty_takes_too_much_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tests, "_complement", broken_matcher)
    reader = PatternReader("^(?!b)a", sees_certainty=True)
    assert reader.read("a")
    assert not reader.is_certain
    assert reader.end()
