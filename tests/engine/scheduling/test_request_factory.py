"""Requests are checked where they are made, and given what their engine and their context know."""

from dataclasses import replace
from typing import Any

import pytest

from sureact.constraints.choice import choice
from sureact.constraints.closing_state import ClosingState
from sureact.drafts.draft_policy import GPU_COSTS, INT4_COSTS, INT8_COSTS
from sureact.drafts.drafter import Drafter
from sureact.engine import Engine
from sureact.errors import ConfigError, PromptTooLongError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import RunawayLimits, SamplingParams
from sureact.scheduling.request_factory import RequestFactory


def factory_of(engine: Engine, *, repetition_penalty: float = 1.0, **settings: Any) -> RequestFactory:
    tokenizer, encoder = engine._tokenizer, engine._encoder  # pyright: ignore[reportPrivateUsage]
    return RequestFactory(replace(engine.config, **settings), tokenizer, encoder, repetition_penalty)


@pytest.fixture(scope="module")
def factory(tiny_engine: Engine) -> RequestFactory:
    return factory_of(tiny_engine)


def sequence(num_tokens: int = 3) -> CachedSequence:
    return CachedSequence([0] * num_tokens)


def test_nothing_asked_for_is_greedy_and_free(factory: RequestFactory) -> None:
    request = factory.new_request(sequence(), None, None)
    assert request.params == SamplingParams()
    assert request.constraint is None
    assert request.judge is None
    assert (request.num_prompt_tokens, request.max_len) == (3, 3 + SamplingParams().max_tokens)


def test_each_completion_draws_from_a_seed_of_its_own(factory: RequestFactory) -> None:
    params = SamplingParams(temperature=1.0, seed=7)
    draws = [factory.new_request(sequence(), params, None, index=index).draws.random() for index in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]
    assert factory.new_request(sequence(), replace(params, seed=8), None).draws.random() == draws[1]


def test_prompt_and_budget_fill_the_context_and_no_more(tiny_engine: Engine) -> None:
    factory = factory_of(tiny_engine, max_model_len=10)
    factory.new_request(sequence(6), SamplingParams(max_tokens=4), None)
    with pytest.raises(PromptTooLongError, match=r"7 tokens; this engine takes 10 including max_tokens=4"):
        factory.new_request(sequence(7), SamplingParams(max_tokens=4), None)


def test_a_constraint_is_compiled_anew_for_each_request(factory: RequestFactory) -> None:
    wanted = choice(["x", "y"])
    first, second = (factory.new_request(sequence(), None, wanted) for _ in range(2))
    assert first.constraint is not None
    assert first.constraint is not second.constraint
    assert first.judge is not None
    assert first.judge("x") == "x"


@pytest.mark.parametrize("settings", [{"stop": "x"}, {"min_tokens": 2}, {"ignore_eos": True}])
def test_what_a_constraint_decides_is_not_to_be_set(factory: RequestFactory, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        factory.new_request(sequence(), SamplingParams(**settings), choice(["x", "y"]))


def test_a_stop_that_spells_a_control_token_stops_at_that_token_too(
    tiny_engine: Engine, factory: RequestFactory
) -> None:
    (end_id,) = tiny_engine.encode("<|im_end|>", parse_control_tokens=True)
    params = factory.new_request(sequence(), SamplingParams(stop=["<|im_end|>", "b"]), None).params
    assert params.stop_texts == ("<|im_end|>", "b")
    assert params.stop_token_ids == ((end_id,),)


def test_a_stop_of_unknown_ids_is_refused(factory: RequestFactory) -> None:
    with pytest.raises(ConfigError, match="99999 is not a token id"):
        factory.new_request(sequence(), SamplingParams(stop=[[0, 99999]]), None)


def test_the_models_repetition_penalty_holds_unless_the_request_sets_one(tiny_engine: Engine) -> None:
    factory = factory_of(tiny_engine, repetition_penalty=1.1)
    assert factory.new_request(sequence(), None, None).repetition_penalty == 1.1
    assert factory.new_request(sequence(), SamplingParams(repetition_penalty=1.0), None).repetition_penalty == 1.0


def test_a_request_guesses_with_what_its_context_knows(factory: RequestFactory) -> None:
    known = factory.new_drafter()
    assert isinstance(known, Drafter)
    assert factory.new_request(sequence(), None, None, drafter=known).drafter is known
    assert isinstance(factory.new_request(sequence(), None, None).drafter, Drafter)


def test_who_wants_log_probabilities_gets_no_guesses(factory: RequestFactory) -> None:
    request = factory.new_request(sequence(), SamplingParams(logprobs=0), choice(["x"]), drafter=factory.new_drafter())
    assert request.drafter is None
    assert not request.takes_forced_text


def test_without_drafts_nothing_is_guessed_or_forced(tiny_engine: Engine) -> None:
    factory = factory_of(tiny_engine, max_draft_len=0)
    assert factory.new_drafter() is None
    assert not factory.new_request(sequence(), None, choice(["x"])).takes_forced_text


@pytest.mark.parametrize(
    ("device", "quantization", "costs"),
    [
        ("cpu", "int4", INT4_COSTS),
        ("cpu", "int8", INT8_COSTS),
        ("cpu", "none", INT8_COSTS),
        ("cuda", "none", GPU_COSTS),
        ("cuda:1", "int4", GPU_COSTS),
    ],
)
def test_guesses_are_weighed_by_what_rows_cost(
    tiny_engine: Engine, device: str, quantization: str, costs: object
) -> None:
    drafter = factory_of(tiny_engine, device=device, quantization=quantization).new_drafter()
    assert drafter is not None
    assert drafter._costs is costs  # pyright: ignore[reportPrivateUsage]


def test_a_text_that_may_be_ended_early_has_a_position_that_ends_it(factory: RequestFactory) -> None:
    wanted = choice(["x", "y"])
    for params in (SamplingParams(on_max_tokens="close"), SamplingParams(runaway=RunawayLimits())):
        assert isinstance(factory.new_request(sequence(), params, wanted).constraint, ClosingState)
        assert factory.new_request(sequence(), params, None).constraint is None
    assert not isinstance(factory.new_request(sequence(), None, wanted).constraint, ClosingState)
