import pytest

from sureact.constraints.byte_matcher import grammar_error
from sureact.constraints.regex_fault import regex_fault, repeated_repeat, size_fault, written_len


def grammar_of(pattern: str) -> str:
    return f"start: /{pattern}/\n"


@pytest.mark.parametrize(
    ("pattern", "fault", "remedy"),
    [
        ("a(?=b)c", "looks around", "Write out what may stand there"),
        ("(?<=a)b", "looks around", "check it when the text is finished"),
        (r"(a)\1", "backreference", "Write out what may be repeated"),
        (r"a\bb", r"\b and \B", "Write what may stand there"),
        (r"a\Bb", r"\b and \B", "Write what may stand there"),
        ("a^b", "an anchor", "Remove the anchor"),
        ("a$b", "an anchor", "Remove the anchor"),
        ("(?m)^a$", "(?m)", "Leave the flag out"),
        ("(ab", "malformed at '('", "Correct it"),
        (r"a\k", r"malformed at '\\k'", "Correct it"),
        ("a{3,2}", "malformed at '{3,2}'", "Correct it"),
    ],
)
def test_a_fault_says_what_is_asked_and_what_to_do(pattern: str, fault: str, remedy: str) -> None:
    said = regex_fault(grammar_error(grammar_of(pattern)))
    assert fault in said
    assert remedy in said
    assert not any(name in said for name in ("Unicode", "EndLF", "Start", "\n"))


def test_an_error_of_another_kind_is_passed_on() -> None:
    assert regex_fault("at 1(2): (in regex): too large\n<state>") == "too large"


@pytest.mark.parametrize(
    ("pattern", "repeat"),
    [
        ("a**", "**"),
        ("a++", "++"),
        ("a{2}{3}", "{2}{3}"),
        ("(a)?+", "?+"),
        ("a+??", "+??"),
        ("a+?", None),
        ("a??", None),
        ("(?:a+)+", None),
        (r"\++[*+]*x*?y+", None),
        ("(?<n>a)+", None),
        ("a{+", None),
    ],
)
def test_the_repeat_of_a_repeat_is_found(pattern: str, repeat: str | None) -> None:
    assert repeated_repeat(pattern) == repeat


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("abc", 3),
        ("^[a-z]{1,63}$", 63),
        ("(a{1,100}){1,100}", 10_000),
        ("((a|b){2}c){3}", 15),
        ("a{5,}b*", 6),
        (r"\d{8}(-\d{4}){3}", 23),
    ],
)
def test_the_length_written_out_counts_each_repeat_at_its_most(pattern: str, length: int) -> None:
    assert written_len(pattern) == length


@pytest.mark.parametrize("pattern", ["(a{1,100}){1,100}", "(([a-z]{1,20}){1,10}){1,20}", ".*[a-z]{1,2000}"])
def test_counts_that_multiply_are_too_much(pattern: str) -> None:
    assert "Lower them" in size_fault(pattern, grammar_of)


@pytest.mark.parametrize(
    "pattern", ["a", "(a{1,20}){1,20}", r"([a-z]{1,63}\.){1,127}[a-z]{2,63}", "[a-z]{1,10000}", "(a{3}){0,300}"]
)
def test_counts_that_a_long_text_is_followed_through_are_not(pattern: str) -> None:
    assert size_fault(pattern, grammar_of) == ""


def test_a_short_regex_is_not_tried() -> None:
    def fail(pattern: str) -> str:
        raise AssertionError(pattern)

    assert size_fault("(a{1,20}){1,20}", fail) == ""
    assert size_fault("a" * 1000, fail) == ""
