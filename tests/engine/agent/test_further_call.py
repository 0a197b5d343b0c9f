"""Whether another call is due: the odds of one, against those after the same calls with nothing else asked for."""

import math
from collections.abc import Iterator, Sequence
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
from sureact.agent.language_model import LanguageModel
from sureact.agent.scripted_model import ScriptedModel, ScriptedSession
from sureact.agent.tool import Tool
from sureact.agent.tool_notation import function_notation
from sureact.constraints.constraint import Constraint
from sureact.outputs import StepLogprobs, StepOutput, TokenLogprob, TokenUsage
from sureact.sampling_params import SamplingParams
from sureact.tokens.chat_template import Message, PromptText

CALLS: list[tuple[str, dict[str, Any]]] = [("look", {"word": "a"}), ("look", {"word": 'ü "quoted"'})]
MESSAGES: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look up a and b."},
]


def look(word: str) -> str:
    """Look up."""
    return word


def rendered(lm: LanguageModel, messages: Sequence[Message]) -> PromptText:
    return lm.render_chat(messages, tools=[function_notation(Tool(look))])


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


class WeighingModel(ScriptedModel):
    """Begins another call with the given odds, one after the other."""

    def __init__(self, *log_odds: float) -> None:
        super().__init__([])
        self.log_odds = list(log_odds)

    def session(self) -> ScriptedSession:
        self.sessions.append(WeighingSession(self))
        return self.sessions[-1]


class WeighingSession(ScriptedSession):
    def __init__(self, model: WeighingModel) -> None:
        super().__init__(model)
        self._odds = model.log_odds

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        assert (params.max_tokens, constraint) == (1, None)
        share = 1 / (1 + math.exp(-self._odds.pop(0)))
        top = (TokenLogprob(ord("{"), math.log(share)), TokenLogprob(256, math.log(1 - share)))
        self.token_ids.append(ord("{"))
        usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)
        return StepOutput(
            text="{", token_ids=(ord("{"),), finish_reason="length", usage=usage, logprobs=(StepLogprobs(top[0], top),)
        )


def judge(model: ScriptedModel, num_calls: int) -> bool:
    session = model.session()
    session.append(calls_text(CALLS[:num_calls]))
    before = session.text
    is_due = FurtherCall(model.session, lambda messages: rendered(model, messages), MESSAGES).is_due(
        session, CALLS[:num_calls]
    )
    assert session.text == before
    return is_due


@pytest.mark.parametrize(
    ("num_calls", "own", "without_cause", "is_due"),
    [
        (1, -9.0, -9.0 - AFTER_FIRST_CALL - 0.1, True),
        (1, -9.0, -9.0 - AFTER_FIRST_CALL + 0.1, False),
        (1, -9.0, -3.0, False),
        (2, -9.0, -9.0 - AFTER_MORE_CALLS - 0.1, True),
        (2, -9.0, -9.0 - AFTER_MORE_CALLS + 0.1, False),
    ],
)
def test_a_rise_of_the_odds_makes_another_call_due(
    num_calls: int, own: float, without_cause: float, is_due: bool
) -> None:
    model = WeighingModel(own, without_cause)
    assert judge(model, num_calls) is is_due
    compared = model.sessions[1]
    assert compared.is_closed
    assert "Be brief." in compared.text
    assert "Look up a and b." not in compared.text
    assert request_for(CALLS[:num_calls]) in compared.text
    assert compared.text.endswith("</tool_call>" + BETWEEN_CALLS)


@pytest.mark.parametrize("num_calls", [1, 2])
def test_a_model_that_would_call_again_is_not_asked_further(num_calls: int) -> None:
    model = WeighingModel(0.1)
    assert judge(model, num_calls)
    assert len(model.sessions) == 1


def test_without_room_to_compare_the_turn_ends() -> None:
    model = WeighingModel(-9.0)
    model.context_len = 150
    assert not judge(model, 1)
    assert all(session.is_closed for session in model.sessions[1:])


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
    messages: list[Message] = [{"role": "user", "content": question}]
    calls = [("look", {"word": "apple"})]
    with model_engine.session() as session:
        session.append(rendered(model_engine, messages) + calls_text(calls))
        further = FurtherCall(model_engine.session, lambda messages: rendered(model_engine, messages), messages)
        assert further.is_due(session, calls) is is_due


def test_later_calls_need_a_larger_rise() -> None:
    assert 0 < AFTER_FIRST_CALL < AFTER_MORE_CALLS
