from typing import Any

import pytest

from sureact.sampling_params import SamplingParams
from sureact.server.api_error import ApiError
from sureact.server.request_fields import read_fields
from sureact.server.sampling_fields import (
    CHOICE_FIELDS,
    CLIENT_FIELDS,
    SAMPLING_FIELDS,
    STREAM_FIELDS,
    StreamOptions,
    sampling_params,
)


def params(**body: Any) -> SamplingParams:
    return sampling_params(read_fields(body, (*SAMPLING_FIELDS, *CHOICE_FIELDS)), max_tokens=100, logprobs=None)


def test_nothing_given_is_greedy() -> None:
    assert params() == SamplingParams(max_tokens=100)


def test_every_field_arrives() -> None:
    assert params(
        temperature=0.5,
        top_p=0.9,
        top_k=-1,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=1,
        frequency_penalty=-1,
        seed=7,
        n=2,
        min_tokens=3,
        stop="\nObservation:",
        stop_token_ids=[5],
        include_stop_str_in_output=True,
        ignore_eos=True,
    ) == SamplingParams(
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=1,
        frequency_penalty=-1,
        seed=7,
        min_tokens=3,
        stop=["\nObservation:", 5],
        include_stop=True,
        ignore_eos=True,
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"min_tokens": 101}, "min_tokens"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["a"] * 65}, "stop"),
        ({"stop": [3]}, "stop[0]"),
        ({"top_p": 0}, "top_p"),
        ({"temperature": 3}, "temperature"),
        ({"seed": 1 << 64}, "seed"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        params(**body)
    assert refused.value.param == param


def test_clients_may_say_what_is_done_anyway() -> None:
    read_fields(
        {"user": "u", "metadata": {"a": "b"}, "store": False, "logit_bias": {}, "service_tier": "auto"}, CLIENT_FIELDS
    )
    with pytest.raises(ApiError, match="logit_bias"):
        read_fields({"logit_bias": {"5": 1}}, CLIENT_FIELDS)


def test_options_of_a_stream_need_a_stream() -> None:
    body = {"stream_options": {"include_usage": True}}
    assert StreamOptions.of(read_fields({"stream": True, **body}, STREAM_FIELDS)) == StreamOptions(True, True)
    with pytest.raises(ApiError, match="stream_options"):
        StreamOptions.of(read_fields(body, STREAM_FIELDS))
