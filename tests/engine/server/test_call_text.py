import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.server.call_text import CallFormat, CallText

FORMAT = CallFormat('\n{"name": "', '", "arguments": ', "}\n")
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=6)


def split(text: str, seed: int) -> list[str]:
    draws = random.Random(seed)
    cuts = sorted({draws.randrange(len(text) + 1) for _ in range(draws.randrange(12))})
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(st.dictionaries(st.text(), VALUES), st.integers())
def test_the_pieces_of_the_arguments_are_the_arguments(arguments: dict[str, Any], seed: int) -> None:
    told = json.dumps(arguments, ensure_ascii=False)
    text = CallText(FORMAT)
    whole = f"{FORMAT.prefix}search_web{FORMAT.delimiter}{told}{FORMAT.suffix}"
    pieces = [text.push(piece) for piece in split(whole, seed)]
    assert "".join(pieces) + text.end(is_whole=True) == told
    assert text.name == "search_web"


@pytest.mark.parametrize(
    ("cut", "name", "arguments"),
    [
        ('\n{"name": "sea', None, ""),
        ('\n{"name": "search", "argu', None, ""),
        ('\n{"name": "search", "arguments": ', "search", ""),
        ('\n{"name": "search", "arguments": {"a": 1', "search", '{"a": 1'),
        ('\n{"name": "search", "arguments": {"a": {}}', "search", '{"a": {}}'),
        ('\n{"name": "search", "arguments": {"a": {}}}', "search", '{"a": {}}'),
        ('\n{"name": "search", "arguments": {"a": "}\n', "search", '{"a": "}\n'),
    ],
)
def test_a_call_that_was_cut_off_keeps_what_there_is(cut: str, name: str | None, arguments: str) -> None:
    for seed in range(20):
        text = CallText(FORMAT)
        pieces = [text.push(piece) for piece in split(cut, seed)]
        assert "".join(pieces) + text.end(is_whole=False) == arguments
        assert text.name == name
