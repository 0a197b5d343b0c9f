"""What a tool gave, as the text that the model reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pydantic_core import PydanticSerializationError, to_jsonable_python

from sureact.agent.trajectory import Step

# Half a UTF-16 pair, as in the name of a file that is not UTF-8: no tokenizer takes it.
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def observation_text(result: object) -> str:
    """Return text as it is, JSON-like values as JSON, and anything else as `str` gives it.

    Lone surrogates become U+FFFD.
    """
    return _SURROGATE.sub("\ufffd", _text_of(result))


def _text_of(result: object) -> str:
    if isinstance(result, str):
        return result
    try:
        return json.dumps(to_jsonable_python(result), ensure_ascii=False)
    except (PydanticSerializationError, ValueError):  # no JSON type, or an object that holds itself
        return str(result)


def error_text(tool_name: str, error: BaseException) -> str:
    """Return type and message of an error; no traceback, which shows the model the host's files.

    Lone surrogates become U+FFFD.
    """
    return _SURROGATE.sub("\ufffd", f"Execution error in {tool_name}: {type(error).__name__}: {error}")


def repeat_text(earlier: Step) -> str:
    """Return what the model reads in place of a call that it made before."""
    return (
        f"This call repeats step {earlier.index + 1} and was not run again. It gave: {earlier.observation}\n"
        "Use that: go on with what is still missing, or finish."
    )


def cut_to_tokens(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return the text, cut with a note at its end when it has more than `max_tokens` tokens."""
    if count_tokens(text) <= max_tokens:
        return text
    kept = _longest_prefix(text, lambda prefix: count_tokens(_with_note(text, prefix)) <= max_tokens)
    return _with_note(text, kept)


def _with_note(text: str, num_characters: int) -> str:
    return f"{text[:num_characters]}\n[cut: {num_characters:,} of {len(text):,} characters shown]"


def _longest_prefix(text: str, fits: Callable[[int], bool]) -> int:
    """Return the most characters that fit, by bisection; 0 when not even the note fits."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
