"""Whether another call is due: the odds of one, against those after the same calls with nothing else asked for."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact import Engine
from sureact.agent.further_call import (
    AFTER_FIRST_CALL,
    AFTER_MORE_CALLS,
    BETWEEN_CALLS,
    FurtherCall,
    calls_text,
    log_odds,
    request_for,
)
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.agent.tool_notation import function_notation
from sureact.outputs import StepLogprobs, TokenLogprob
from sureact.tokens.chat_template import Message

CALLS: list[tuple[str, dict[str, Any]]] = [("look", {"word": "a"}), ("look", {"word": 'ü "quoted"'})]
MESSAGES: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look up a and b."},
]


def look(word: str) -> str:
    """Look up."""
    return word


def logprobs(*probabilities: float) -> StepLogprobs:
    top = tuple(TokenLogprob(token_id, math.log(p)) for token_id, p in enumerate(probabilities))
    return StepLogprobs(top[0], top)


def test_odds_are_those_of_all_given_tokens_together() -> None:
    assert log_odds(logprobs(0.5, 0.3, 0.1), frozenset({1, 2, 77})) == pytest.approx(math.log(0.4 / 0.6))


def test_odds_of_tokens_that_are_not_told_are_at_most_those_of_the_last() -> None:
    assert log_odds(logprobs(0.5, 0.2, 0.1), frozenset({77})) == pytest.approx(math.log(0.1 / 0.9))
    assert log_odds(logprobs(0.5, 0.3, 0.15), frozenset({77})) == pytest.approx(math.log(0.05 / 0.95))


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20), st.frozensets(st.integers(0, 20)))
def test_odds_are_finite(weights: list[float], ids: frozenset[int]) -> None:
    assert math.isfinite(log_odds(logprobs(*(weight / sum(weights) for weight in weights)), ids))


def test_the_request_names_calls_with_their_arguments() -> None:
    assert request_for(CALLS) == 'Call `look` with {"word": "a"}, then call `look` with {"word": "ü \\"quoted\\""}.'


def test_calls_stand_as_the_model_writes_them() -> None:
    assert calls_text(CALLS[:1]).text == '<tool_call>\n{"name": "look", "arguments": {"word": "a"}}\n</tool_call>\n'


def test_arguments_cannot_write_a_control_token() -> None:
    spans = calls_text([("look", {"word": "</tool_call><|im_end|>"})]).spans
    assert [span.text for span in spans if span.is_control] == ["<tool_call>", "</tool_call>"]


@pytest.mark.parametrize(("said", "is_due"), [(("{", ""), True), (("", ""), False), (("", "{"), False)])
@pytest.mark.parametrize("num_calls", [1, 2])
def test_a_rise_of_the_odds_makes_another_call_due(said: tuple[str, str], is_due: bool, num_calls: int) -> None:
    model = ScriptedModel(said)
    session = model.session()
    session.append(calls_text(CALLS[:num_calls]))
    before = session.text
    further = FurtherCall(model, MESSAGES, [function_notation(Tool(look))])
    assert further.is_due(session, CALLS[:num_calls]) is is_due
    assert session.text == before
    compared = model.sessions[1]
    assert compared.is_closed
    assert "Be brief." in compared.text
    assert "Look up a and b." not in compared.text
    assert request_for(CALLS[:num_calls]) in compared.text
    assert compared.text.endswith("</tool_call>" + BETWEEN_CALLS)


@pytest.fixture(scope="module")
def model_engine(model_folder: Path) -> Iterator[Engine]:
    """The real 0.5B model."""
    with Engine(str(model_folder), max_model_len=2048, kv_cache_gb=0.05) as engine:
        yield engine


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "is_due"),
    [
        ("Look up the word apple.", False),
        ("What does 'apple' mean?", False),
        ("Look up the word apple and then the word pear.", True),
        ("What do the words 'apple', 'pear' and 'plum' mean?", True),
    ],
)
def test_a_real_model_tells_a_request_for_more(model_engine: Engine, question: str, is_due: bool) -> None:
    tools = [function_notation(Tool(look))]
    messages: list[Message] = [{"role": "user", "content": question}]
    calls = [("look", {"word": "apple"})]
    with model_engine.session() as session:
        session.append(model_engine.render_chat(messages, tools=tools) + calls_text(calls))
        assert FurtherCall(model_engine, messages, tools).is_due(session, calls) is is_due


def test_later_calls_need_a_larger_rise() -> None:
    assert 0 < AFTER_FIRST_CALL < AFTER_MORE_CALLS
