"""Requests of dspy: what they become, and what is refused by name."""

from typing import Any

import pytest
from dspy import lm15

from sureact.constraints.json_schema import JsonSchemaConstraint
from sureact.errors import ConfigError
from sureact.integrations.dspy_fields import Field, FieldLayout
from sureact.integrations.dspy_frame import FrameConstraint
from sureact.integrations.dspy_request import COMPLETED, Ask, read_request
from sureact.sampling_params import SamplingParams

SEARCH = lm15.FunctionTool("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
FINISH = lm15.FunctionTool("finish")
LAYOUT = FieldLayout((Field("answer", {"type": "integer"}),), {}).write()
ASKED = f"Respond with the field `[[ ## answer ## ]]`, and end with `{COMPLETED}`."


def ask(
    text: str = "hi", tools: tuple[Any, ...] = (), messages: tuple[lm15.Message, ...] | None = None, **config: Any
) -> Ask:
    messages = messages or (lm15.Message.user(text),)
    request = lm15.Request("sureact/m", messages, tools=tools, config=lm15.Config(**config))
    return read_request(request, default_max_tokens=77)


def refusal(**options: Any) -> lm15.UnsupportedFeatureError:
    with pytest.raises(lm15.UnsupportedFeatureError) as caught:
        ask(**options)
    return caught.value


def test_a_request_without_options_is_greedy_and_has_the_default_budget() -> None:
    assert ask().params == SamplingParams(max_tokens=77)
    assert ask().constraint is None


def test_options_of_dspy_are_those_of_the_engine() -> None:
    options: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 1,
        "presence_penalty": 0.1,
        "logprobs": 2,
    }
    read = ask(max_tokens=5, stop=("a", "b"), extensions={"min_p": 0.1}, **options)
    assert read.params == SamplingParams(max_tokens=5, stop=["a", "b"], min_p=0.1, **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"service_tier": "flex"}, "service_tier"),
        ({"user_id": "me"}, "user_id"),
        ({"store": True}, "store"),
        ({"reasoning": lm15.Reasoning("low")}, "reasoning"),
        ({"cache": lm15.CacheConfig(mode="off")}, "cache"),
        ({"cache": lm15.CacheConfig(retention="long")}, "cache"),
        ({"extensions": {"logit_bias": {"1": 1}}}, "logit_bias"),
        ({"extensions": {"metadata": {"user": "me"}}}, "user"),
        ({"extensions": {"regex": "a"}, "response_format": {"type": "json_object"}}, "regex and response_format"),
        ({"extensions": {"regex": "a", "choice": ["a"]}}, "regex and choice"),
        ({"tool_choice": lm15.ToolChoice("required")}, "needs tools"),
        ({"tools": (lm15.BuiltinTool("web_search"),)}, "web_search"),
    ],
)
def test_what_cannot_be_honored_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    assert named in str(refusal(**options))


def test_what_asks_for_nothing_is_taken() -> None:
    ask(store=False, reasoning=lm15.Reasoning("off"), cache=lm15.CacheConfig(prefix="stable"))


def test_a_value_out_of_its_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_p is 2"):
        ask(extensions={"min_p": 2})


@pytest.mark.parametrize("part", [lm15.ImagePart(url="https://example.org/a.png"), lm15.ThinkingPart("hm")])
def test_a_part_that_is_no_text_is_refused(part: Any) -> None:
    role = "assistant" if isinstance(part, lm15.ThinkingPart) else "user"
    assert part.type in str(refusal(messages=(lm15.Message(role, (part,)),)))


def test_a_conversation_is_read_in_order() -> None:
    messages = (
        lm15.Message.user([lm15.TextPart("a"), lm15.DataPart({"b": "ü"})]),
        lm15.Message.assistant([lm15.TextPart("t"), lm15.ToolCallPart("1", "search", {"q": "x"})]),
        lm15.Message.tool({"1": "found", "2": "more"}),
        lm15.Message.developer("be brief"),
    )
    request = lm15.Request("m", messages, system="S", tools=(SEARCH,))
    read = read_request(request, 1)
    assert read.messages == (
        {"role": "system", "content": "S"},
        {"role": "user", "content": 'a\n{"b": "ü"}'},
        {
            "role": "assistant",
            "content": "t",
            "tool_calls": [{"type": "function", "function": {"name": "search", "arguments": {"q": "x"}}}],
        },
        {"role": "tool", "content": "found"},
        {"role": "tool", "content": "more"},
        {"role": "system", "content": "be brief"},
    )
    assert read.calls is not None
    assert read.calls.num_before == 1


def test_tool_choice_says_which_tools_may_be_called_and_whether_one_must() -> None:
    tools = (SEARCH, FINISH)
    assert ask(tools=tools, tool_choice=lm15.ToolChoice("none")).calls is None
    assert ask(tools=tools, tool_choice=lm15.ToolChoice("none")).tools == ()
    auto = ask(tools=tools).calls
    assert auto is not None
    assert (auto.is_required, auto.is_parallel, auto.tools) == (False, True, tools)
    named = ask(tools=tools, tool_choice=lm15.ToolChoice("required", ("finish",), parallel=False))
    assert named.calls is not None
    assert (named.calls.is_required, named.calls.is_parallel, named.calls.tools) == (True, False, (FINISH,))
    assert named.tools == tools


def test_a_schema_of_other_fields_goes_before_a_layout_and_a_layout_before_any_object() -> None:
    metadata = {"metadata": {"sureact": LAYOUT}}
    schema = {"type": "json_schema", "schema": {"const": 1}}
    by_schema = ask(response_format=schema, extensions=metadata).constraint
    assert isinstance(by_schema, JsonSchemaConstraint)
    assert by_schema.schema == {"const": 1}
    same_fields = {"type": "json_schema", "schema": {"properties": {"answer": {"type": "number"}}}}
    for response_format in ({"type": "json_object"}, same_fields):
        by_layout = ask(response_format=response_format, extensions=metadata).constraint
        assert isinstance(by_layout, JsonSchemaConstraint)
        assert isinstance(by_layout.schema, dict)
        assert by_layout.schema["required"] == ["answer"]
    any_object = ask(response_format={"type": "json_object"}).constraint
    assert isinstance(any_object, JsonSchemaConstraint)
    assert any_object.schema == {"type": "object"}
    assert isinstance(ask(ASKED, extensions=metadata).constraint, FrameConstraint)


def test_a_layout_is_not_guessed_into_a_frame_that_the_prompt_does_not_ask_for() -> None:
    metadata = {"metadata": {"sureact": LAYOUT}}
    assert "asks for neither" in str(refusal(text="<answer>", extensions=metadata))
    stale = f"Respond with `[[ ## other ## ]]` and `{COMPLETED}`."
    assert "'answer'" in str(refusal(text=stale, extensions=metadata))


def test_a_free_answer_ends_at_the_marker_that_the_prompt_asks_for() -> None:
    assert ask(ASKED).ends_at_completed
    assert not ask("hi").ends_at_completed
    assert not ask(ASKED, stop=(COMPLETED,)).ends_at_completed
    assert not ask(ASKED, response_format={"type": "json_object"}).ends_at_completed


@pytest.mark.parametrize("extension", [{"regex": "[0-9]"}, {"choice": ["a", "b"]}, {"grammar": 'start: "a"'}])
def test_a_constraint_can_be_given_as_an_extension(extension: dict[str, Any]) -> None:
    assert ask(extensions=extension).constraint is not None
