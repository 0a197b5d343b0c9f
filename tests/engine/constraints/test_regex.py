import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.constraint import Constraint
from sureact.constraints.regex import regex
from sureact.errors import ConfigError, ConstraintCompileError, InternalError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]

patterns = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", r"\d", "é", r"\.", "/", '"', " "]),
    lambda inner: st.one_of(
        st.builds("({})*".format, inner),
        st.builds("({})?".format, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("({}){{1,2}}".format, inner),
    ),
    max_leaves=5,
)


@given(patterns, st.text('ab1é./" \n', max_size=5))
def test_a_text_is_spelled_exactly_when_python_matches_it_in_full(spells: Spells, pattern: str, text: str) -> None:
    constraint = regex(pattern)
    matches = re.fullmatch(pattern, text, re.ASCII) is not None
    assert spells(constraint, text) is matches
    if matches:
        assert constraint.parse(text) == text
    else:
        with pytest.raises(InternalError):
            constraint.parse(text)


@pytest.mark.parametrize("pattern", ["^ab$", "ab$", "^ab", r"\Aab\Z", r"\Aab\z", "^(?:ab)$"])
def test_anchors_at_the_ends_change_nothing(pattern: str, spells: Spells) -> None:
    assert spells(regex(pattern), "ab")
    assert not spells(regex(pattern), "xab")
    assert not spells(regex(pattern), "ab\n")


def test_an_escaped_backslash_before_z_is_no_anchor(spells: Spells) -> None:
    assert spells(regex(r"a\\Z"), "a\\Z")


def test_digits_are_ascii_and_words_are_unicode(spells: Spells) -> None:
    assert not spells(regex(r"\d"), "٣")
    assert not spells(regex(r"[\d]"), "٣")
    assert spells(regex(r"\w+"), "né")


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(?=a)b", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "backreferences"),
        (r"\bfoo", "WordUnicode"),
        ("a$b", "End"),
        ("(", "unclosed group"),
        ("a{2,1}", "repetition"),
    ],
)
def test_what_no_automaton_can_do_is_named(pattern: str, named: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError) as caught:
        regex(pattern).compile(vocabulary)
    assert named in str(caught.value)
    assert repr(pattern) in str(caught.value)


def test_a_pattern_is_a_text() -> None:
    with pytest.raises(ConfigError):
        regex(re.compile("a"))  # pyright: ignore[reportArgumentType]
