from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.chat_fields import CHAT_FIELDS, wanted_logprobs, wanted_thinking, wanted_tokens
from sureact.server.request_fields import read_fields

HI = [{"role": "user", "content": "hi"}]


def read(**body: Any) -> dict[str, Any]:
    return read_fields({"messages": HI, **body}, CHAT_FIELDS)


def test_no_field_is_named_twice() -> None:
    names = [field.name for field in CHAT_FIELDS]
    assert len(names) == len(set(names))


def test_both_names_of_the_budget_mean_the_same() -> None:
    assert wanted_tokens(read()) is None
    assert wanted_tokens(read(max_tokens=3)) == wanted_tokens(read(max_completion_tokens=3)) == 3
    with pytest.raises(ApiError, match="mean the same"):
        wanted_tokens(read(max_tokens=3, max_completion_tokens=4))


def test_top_logprobs_need_logprobs() -> None:
    assert wanted_logprobs(read()) is None
    assert wanted_logprobs(read(logprobs=True)) == 0
    assert wanted_logprobs(read(logprobs=True, top_logprobs=2)) == 2
    with pytest.raises(ApiError, match="top_logprobs"):
        wanted_logprobs(read(top_logprobs=2))


def test_no_effort_of_reasoning_is_no_budget_for_it() -> None:
    assert wanted_thinking(read()) is None
    assert wanted_thinking(read(thinking_token_budget=4)) == 4
    assert wanted_thinking(read(reasoning_effort="none")) == 0
    assert wanted_thinking(read(reasoning_effort="none", thinking_token_budget=0)) == 0
    with pytest.raises(ApiError, match="Give one of them"):
        wanted_thinking(read(reasoning_effort="none", thinking_token_budget=4))


def test_the_verbosity_is_what_it_is() -> None:
    read(verbosity="medium")
    with pytest.raises(ApiError, match="verbosity"):
        read(verbosity="low")


@pytest.mark.parametrize("variables", [{"messages": "x"}, {"a b": 1}, {"a": []}, {"tools": None}, 3])
def test_a_template_gets_no_variables_of_its_own(variables: Any) -> None:
    with pytest.raises(ApiError, match="chat_template_kwargs"):
        read(chat_template_kwargs=variables)
    assert read(chat_template_kwargs={"enable_thinking": False})["chat_template_kwargs"]
