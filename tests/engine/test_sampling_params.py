"""Sampling parameters are greedy unless told otherwise, and refuse what cannot be honored."""

from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.sampling_params import RunawayLimits, SamplingParams

WHOLE_NUMBERS = ("max_tokens", "min_tokens", "top_k", "n", "seed", "logprobs")


def test_the_default_is_greedy_without_stops() -> None:
    params = SamplingParams()
    assert params.is_greedy
    assert (params.stop_texts, params.stop_token_ids) == ((), ())


@pytest.mark.parametrize(
    ("stop", "texts", "token_ids"),
    [
        ("END", ("END",), ()),
        (7, (), ((7,),)),
        (["a", "b"], ("a", "b"), ()),
        ([[1, 2], [3]], (), ((1, 2), (3,))),
        (["a", 5, [6, 7]], ("a",), ((5,), (6, 7))),
    ],
)
def test_stops_are_given_as_texts_ids_or_sequences(
    stop: Any, texts: tuple[str, ...], token_ids: tuple[tuple[int, ...], ...]
) -> None:
    params = SamplingParams(stop=stop)
    assert params.stop_texts == texts
    assert params.stop_token_ids == token_ids


def test_later_changes_to_the_given_stops_do_not_matter() -> None:
    stops = ["a"]
    params = SamplingParams(stop=stops)
    stops.append("b")
    assert params.stop_texts == ("a",)
    assert hash(params) == hash(SamplingParams(stop=["a"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("min_tokens", 513),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repetition_penalty", 0.0),
        ("n", 0),
        ("n", 2),
        ("logprobs", 21),
        *((name, value) for name in WHOLE_NUMBERS for value in (2.5, 1.0, "3", True)),
        *((name, value) for name in ("temperature", "top_p", "repetition_penalty") for value in ("1", True, [1])),
        ("max_tokens", None),
        ("top_p", None),
        ("ignore_eos", "no"),
        ("include_stop", 1),
        ("stop", 1.5),
        ("stop", None),
        ("stop", [None]),
        ("stop", [["a"]]),
        ("stop", True),
        ("stop", ""),
        ("stop", [[]]),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        SamplingParams(**{name: value})  # pyright: ignore[reportArgumentType]


def test_several_completions_need_a_temperature() -> None:
    assert SamplingParams(n=2, temperature=0.7).n == 2


def test_a_text_is_cut_by_its_budget_and_may_run_on_unless_told_otherwise() -> None:
    params = SamplingParams()
    assert (params.on_max_tokens, params.runaway) == ("cut", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_max_tokens": "error"}, "on_max_tokens is 'error'; it must be 'cut' or 'close'"),
        ({"runaway": True}, "runaway is True; it must be a RunawayLimits, or None"),
    ],
)
def test_other_ways_to_end_a_text_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SamplingParams(**options)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8"])
def test_a_limit_of_what_runs_on_is_a_whole_number_or_none(value: Any) -> None:
    assert RunawayLimits(array_items=None).array_items is None
    with pytest.raises(ConfigError, match=r"RunawayLimits.string_characters is .* or None"):
        RunawayLimits(string_characters=value)
