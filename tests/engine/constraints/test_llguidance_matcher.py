"""Matchers are built for what llguidance alone would not end well with."""

import json
import threading

from llguidance import LLMatcher

from sureact.constraints.byte_matcher import byte_tokenizer
from sureact.constraints.llguidance_matcher import new_matcher


def _matcher(schema: dict[str, object]) -> LLMatcher:
    return new_matcher(byte_tokenizer(), LLMatcher.grammar_from_json_schema(json.dumps(schema)))


def _chain(length: int) -> dict[str, object]:
    links = {f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "null"}}}


def test_what_is_refused_is_told_and_not_raised() -> None:
    assert "Unsatisfiable" in _matcher({"type": "integer", "minimum": 2, "maximum": 1}).get_error()


def test_references_may_lead_far_down_whatever_the_stack_of_the_thread() -> None:
    """Without a stack of its own, the process would end here."""
    built: list[LLMatcher] = []
    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=lambda: built.append(_matcher(_chain(3_000))))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    text = b"[" * 60 + b"]" * 60
    assert built[0].try_consume_tokens(list(text)) == len(text)
    assert built[0].is_accepting()


def test_thousands_of_alternatives_at_one_point_can_be_told_apart() -> None:
    options = [
        {"type": "object", "properties": {f"p{i}": {"type": "null"}}, "required": [f"p{i}"]} for i in range(3_000)
    ]
    matcher = _matcher({"anyOf": options})
    text = b'{"p2999":null}'
    assert matcher.try_consume_tokens(list(text)) == len(text)
    assert matcher.is_accepting()
