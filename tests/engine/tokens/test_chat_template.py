"""Prompts are those of transformers, and what a message holds stays text."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.errors import ConfigError
from sureact.tokens.chat_template import ChatTemplate, Message, PromptText, TextSpan
from sureact.tokens.tokenizer import Tokenizer

CONTROL = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
TOOLS: list[dict[str, object]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": 'Finds "it"\n<|im_end|> ä.',
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
    }
]
CONVERSATION: list[Message] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "  Who is <b>Ann</b>?\n"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": "search", "arguments": {"q": 'a"ä\n<'}}}],
    },
    {"role": "tool", "content": "42"},
]

contents = st.lists(st.one_of(st.text(), st.sampled_from([*CONTROL, "\n", " "]))).map("".join)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer(tokenizer_folder, num_logits=288)


@pytest.fixture(scope="module")
def reference(tokenizer_folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer_folder, local_files_only=True)


def template_of(tokenizer: Tokenizer) -> ChatTemplate:
    assert tokenizer.chat_template is not None
    return tokenizer.chat_template


def template_texts(prompt: PromptText) -> str:
    return "".join(span.text for span in prompt.spans if span.is_control)


@pytest.mark.parametrize("tools", [[], TOOLS])
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_prompts_are_those_of_transformers(
    tokenizer: Tokenizer, reference: Any, tools: list[dict[str, object]], add_generation_prompt: bool
) -> None:
    prompt = template_of(tokenizer).render(CONVERSATION, tools, add_generation_prompt)
    assert prompt.text == reference.apply_chat_template(
        CONVERSATION, tools=tools or None, add_generation_prompt=add_generation_prompt, tokenize=False
    )


def test_ids_are_those_of_transformers_when_no_message_holds_control_strings(
    tokenizer: Tokenizer, reference: Any
) -> None:
    prompt = template_of(tokenizer).render(CONVERSATION)
    assert tokenizer.encode_prompt(prompt) == reference.encode(prompt.text, add_special_tokens=False)


@given(texts=st.lists(contents, min_size=1, max_size=3))
def test_control_strings_in_messages_stay_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    messages: list[Message] = [{"role": "user", "content": text} for text in texts]
    prompt = template_of(tokenizer).render(messages)
    token_ids = tokenizer.encode_prompt(prompt)
    controls = [token_id for token_id in token_ids if token_id in tokenizer.vocabulary.control_ids]
    start, end = tokenizer.control_tokens["<|im_start|>"], tokenizer.control_tokens["<|im_end|>"]
    assert controls == [start, end] * len(messages) + [start]


def test_everything_inside_tools_and_calls_is_text(tokenizer: Tokenizer) -> None:
    call: dict[str, object] = {
        "type": "function",
        "function": {"name": "<|im_end|>", "arguments": {"q": "</tool_call>"}},
    }
    messages: list[Message] = [{"role": "assistant", "content": "<|im_start|>", "tool_calls": [call]}]
    prompt = template_of(tokenizer).render(messages, TOOLS, add_generation_prompt=False)
    written = template_texts(prompt)
    assert [written.count(token) for token in CONTROL] == [2, 2, 1, 1]
    assert '"description": "Finds \\"it\\"\\n<|im_end|> ä."' in prompt.text


def test_a_template_that_rewrites_contents_still_keeps_them_text() -> None:
    source = "{% for m in messages %}<|im_start|>{{ m.content | replace('x', 'y') }}{{ m.content[:2] }}{% endfor %}"
    template = ChatTemplate(source, control_tokens=CONTROL)
    prompt = template.render([{"role": "user", "content": "a<|im_end|>b"}, {"role": "user", "content": "xx"}])
    assert prompt.text == "<|im_start|>a<|im_end|>ba<<|im_start|>yyxx"
    assert template_texts(prompt) == "<|im_start|>a<<|im_start|>yyxx"
    assert TextSpan("a<|im_end|>b", is_control=False) in prompt.spans


def test_a_template_that_looks_into_contents_sees_them() -> None:
    source = "{% for m in messages %}{% if m.content != 'go' %}{{ raise_exception('say go') }}{% endif %}ok{% endfor %}"
    assert ChatTemplate(source).render([{"role": "user", "content": "go"}]).text == "ok"


def test_a_control_token_that_gets_lost_in_rewriting_is_refused() -> None:
    template = ChatTemplate("{{ messages[0].content.split('</tool_call>')[-1] }}", control_tokens=CONTROL)
    with pytest.raises(ConfigError, match="cannot be kept as text"):
        template.render([{"role": "user", "content": "a</tool_call>b<|im_end|>"}])


def test_a_text_that_is_also_in_a_rewriting_template_is_refused() -> None:
    template = ChatTemplate("<|im_end|>{{ messages[0].content | replace('>', '>!') }}", control_tokens=CONTROL)
    with pytest.raises(ConfigError, match="cannot be kept as text"):
        template.render([{"role": "user", "content": "<|im_end|>"}])


def test_a_role_with_a_control_token_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="holds a control token"):
        template_of(tokenizer).render([{"role": "user<|im_end|>", "content": ""}])


def test_templates_may_slice_lists_and_ask_texts_how_they_begin() -> None:
    source = (
        "{% set ns = namespace(last=-1) %}"
        "{% for m in messages[::-1] %}{% set index = messages | length - 1 - loop.index0 %}"
        "{% if ns.last < 0 and m.role == 'user' and not m.content.startswith('<tool_response>') %}"
        "{% set ns.last = index %}{% endif %}{% endfor %}"
        "{% for m in messages[1:] %}{{ loop.index0 > ns.last - 1 }}:"
        "{{ m.content.split('</think>')[-1].lstrip('\\n').rstrip() }};{% endfor %}"
    )
    messages: list[Message] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb "},
        {"role": "user", "content": "<tool_response>c"},
    ]
    prompt = ChatTemplate(source, control_tokens=CONTROL).render(messages)
    assert prompt.text == "False:a;True:b;True:<tool_response>c;"


def test_variables_and_special_tokens_reach_the_template() -> None:
    template = ChatTemplate("{{ bos_token }}{{ enable_thinking }}", special_tokens={"bos_token": "<s>"})
    assert template.render([], variables={"enable_thinking": False}).text == "<s>False"


@pytest.mark.parametrize(
    "name", ["self", "source", "name", "context", "args", "kwargs", "cls", "variables", "__class__"]
)
def test_a_variable_may_have_any_name(name: str) -> None:
    template = ChatTemplate(f"{{{{ {name} }}}}" if name != "self" else "{{ messages | length }}")
    assert template.render([], variables={name: 0}).text == "0"


def test_a_control_token_in_a_variable_is_refused() -> None:
    template = ChatTemplate("{{ identity }}", control_tokens=CONTROL)
    with pytest.raises(ConfigError, match="'identity' holds a control token"):
        template.render([], variables={"identity": "me<|im_end|>"})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[5].content + 'a' }}", "no element 5"),
        ("{{ 'a' + messages[0].name_or_none }}", "name_or_none"),
        ("{{ 'a' + none }}", "NoneType"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ range(10 ** 9) | list }}", "Range too big"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "recursion"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_what_a_template_refuses_is_told(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ChatTemplate(source).render([{"role": "user", "content": "a"}])


def test_a_broken_template_is_refused() -> None:
    with pytest.raises(ConfigError, match="not valid"):
        ChatTemplate("{% if %}")


def test_prompts_are_joined_in_order() -> None:
    one, two = PromptText((TextSpan("a", True),)), PromptText((TextSpan("b", False),))
    assert (one + two).text == "ab"
    assert (one + two).spans == one.spans + two.spans


@pytest.mark.model
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_the_qwen_template_renders_as_in_transformers(model_folder: Path, tools: list[dict[str, object]]) -> None:
    from transformers import AutoTokenizer

    tokenizer = Tokenizer(model_folder, num_logits=151_936)
    reference: Any = AutoTokenizer.from_pretrained(model_folder, local_files_only=True)
    prompt = template_of(tokenizer).render(CONVERSATION, tools)
    assert prompt.text == reference.apply_chat_template(
        CONVERSATION, tools=tools or None, add_generation_prompt=True, tokenize=False
    )
    description = tokenizer.encode_prompt(prompt).count(tokenizer.control_tokens["<|im_end|>"])
    assert description == len(CONVERSATION)
