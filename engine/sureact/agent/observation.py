"""What a tool gave, as the text that the model reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from io import IOBase
from typing import cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from sureact.agent.host_paths import without_host_paths
from sureact.agent.tool_attempt import MAX_ITEMS, first_items
from sureact.agent.trajectory import Step

# Half a UTF-16 pair, as in the name of a file that is not UTF-8: no tokenizer takes it.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Where an object lies in memory differs from run to run, and tells the model nothing.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_MAX_ERROR_CHARACTERS = 4000
_SHOWN_BYTES = 16
# Longer texts are shortened before any token of them is counted: 10 MB take seconds to tokenize.
_CHARACTERS_PER_TOKEN = 32
_MAX_GUESSES = 50


def observation_text(result: object) -> str:
    """Return text as it is, JSON-like values as JSON, and anything else as `str` gives it.

    Bytes are text if they are UTF-8, else their number and first ones are told. Of an iterator, at most 1,000 items are
    read. Numbers that JSON has no spelling for are `NaN`, `Infinity` and `-Infinity`. Lone surrogates become U+FFFD.
    """
    return _encodable(_text_of(result))


def _text_of(result: object) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, bytes | bytearray | memoryview):
        return _text_of_bytes(bytes(cast("bytes", result)))
    if isinstance(result, Iterator) and not isinstance(result, IOBase):
        items, has_more = first_items(result)
        note = f"\n[cut: the first {MAX_ITEMS:,} items shown]" if has_more else ""
        return f"{_text_of(items)}{note}"
    if isinstance(result, set | frozenset):
        result = _in_order(cast("set[object]", result))
    for bytes_mode in ("utf8", "base64"):
        try:
            return json.dumps(to_jsonable_python(result, bytes_mode=bytes_mode), ensure_ascii=False)
        except (PydanticSerializationError, ValueError):  # no JSON type, or an object that holds itself
            continue
    return _ADDRESS.sub("", str(result))


def _text_of_bytes(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"[{len(data):,} bytes that are not text; they begin with {data[:_SHOWN_BYTES].hex(' ')}]"


def _in_order(items: set[object]) -> list[object]:
    """Return the items of a set in an order that does not differ from run to run."""
    return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def error_text(tool_name: str, error: BaseException, known: Iterable[str] = ()) -> str:
    """Return type and message of an error; no traceback, and no folders, which show the model the host's files.

    Long messages are cut. Lone surrogates become U+FFFD.

    Args:
        tool_name: the tool.
        error: what it raised.
        known: texts of the call's own arguments: paths in them stay.
    """
    message = without_host_paths(error_message(error)[: 2 * _MAX_ERROR_CHARACTERS], known)
    if len(message) > _MAX_ERROR_CHARACTERS:
        message = f"{message[:_MAX_ERROR_CHARACTERS]} [cut]"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()) if isinstance(note, str))
    name = getattr(error, "type_name", type(error).__name__)
    return _encodable(f"Execution error in {tool_name}: {name}: {message}{notes}")


def error_message(error: BaseException) -> str:
    """Return the message of an error; of a group, those of its members with their types."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", error.exceptions)
        return "; ".join(f"{type(item).__name__}: {error_message(item)}" for item in inner)
    try:
        return _ADDRESS.sub("", str(error))
    except Exception:  # the error is the user's class, and its `__str__` may fail too
        return "(its message cannot be read)"


def repeat_text(earlier: Step) -> str:
    """Return what the model reads in place of a call that it made before."""
    return (
        f"This call repeats step {earlier.index + 1} and was not run again. It gave: {earlier.observation}\n"
        "Use that: go on with what is still missing, or finish."
    )


def cut_to_characters(text: str, most: int) -> str:
    """Return the text, cut with a note at its end when it has more than `most` characters."""
    return text if len(text) <= most else _with_note(text, most)


def cut_to_tokens(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return the text, cut with a note at its end when it has more than `max_tokens` tokens.

    What is longer than 32 characters a token is cut without being counted. A text that the note would only make longer
    stays whole.
    """
    most = max_tokens * _CHARACTERS_PER_TOKEN
    num_tokens = count_tokens(text) if len(text) <= most else None
    if num_tokens is not None and num_tokens <= max_tokens:
        return text
    kept = _longest_prefix(min(len(text) - 1, most), max_tokens, lambda size: count_tokens(_with_note(text, size)))
    cut = _with_note(text, kept)
    is_shorter = len(cut) < len(text) if num_tokens is None else count_tokens(cut) < num_tokens
    return cut if is_shorter else text


def _with_note(text: str, num_characters: int) -> str:
    return f"{text[:num_characters]}\n[cut: {num_characters:,} of {len(text):,} characters shown]"


def _longest_prefix(most: int, max_tokens: int, tokens_of: Callable[[int], int]) -> int:
    """Return about the most characters that fit, 0 when not even the note fits.

    Tokens grow nearly in step with characters, so where the budget ends is guessed, from a short prefix first: counting
    takes as long as the prefix is.
    """
    low, high = 0, most + 1  # `low` fits or is 0, `high` does not fit or is beyond the text
    low_tokens = tokens_of(0)
    per_token = 2.0
    slack = max_tokens // 100
    for _ in range(_MAX_GUESSES):
        if high - low <= 1 or max_tokens - low_tokens <= slack:
            break
        guess = low + max(1, int((max_tokens - low_tokens) * per_token))
        middle = min(max(guess, low + 1), high - 1)
        tokens = tokens_of(middle)
        if tokens <= max_tokens:
            per_token = (middle - low) / max(tokens - low_tokens, 1)
            low, low_tokens = middle, tokens
        else:
            high = middle
            per_token *= 0.7
    return low
