"""Patterns are searched as JSON Schema has it, whatever the text; formats are what jsonschema says."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.text_tests import PatternReader, format_holds, pattern_error, pattern_matches
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


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.sampled_from(PATTERNS), st.text('ab\n"\\é娃😀\x00\x1f\x7f ', max_size=5))
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


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("^a$", "a\n", False), (r"\d", "٣", False), (r"^\w$", "é", False), (r"^\p{L}$", "é", True), ("^.$", "\n", False)],
)
def test_the_syntax_is_that_of_ecma_262(pattern: str, text: str, matches: bool) -> None:
    assert pattern_matches(pattern, text) == matches


def test_a_lone_surrogate_is_no_text() -> None:
    assert not pattern_matches(".", "\ud800")
    assert not PatternReader(".").read("\udc00")


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", r"\Z"])
def test_a_pattern_that_no_automaton_tests_has_an_error(pattern: str) -> None:
    assert pattern_error(pattern)
    assert not pattern_error("^a$")


def test_a_pattern_that_backtracking_chokes_on_takes_linear_time() -> None:
    start = time.perf_counter()
    assert not pattern_matches("^(a+)+$", "a" * 20_000 + "!")
    assert time.perf_counter() - start < 5


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
