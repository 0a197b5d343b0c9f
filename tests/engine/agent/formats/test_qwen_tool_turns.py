from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.formats.qwen_tool_turns import QwenToolTurnsFormat
from sureact.agent.history import Turn, TurnCall
from sureact.agent.prompt_format import plain_text
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary, encode
from sureact.constraints.constraint import Constraint
from sureact.errors import ConfigError
from sureact.tokens.chat_template import PromptText, TextSpan


def search(query: str, k: int = 3) -> str:
    """Search the archive."""
    return query * k


def turns_format(lm: ScriptedModel | None = None, tools: tuple[Any, ...] = (search,)) -> QwenToolTurnsFormat:
    return ReActV2("question -> answer: int", tools, lm=lm or ScriptedModel([])).prompt_format


def calls(*queries: str) -> tuple[TurnCall, ...]:
    return tuple(
        TurnCall(id=f"call_0_{k}", tool_name="search", tool_args={"query": query}, observation=query.upper())
        for k, query in enumerate(queries)
    )


def allows(constraint: Constraint | None, text: str) -> bool:
    """Whether a text is allowed and may end there."""
    assert constraint is not None
    state = constraint.compile(byte_vocabulary()).new_state()
    for token_id in encode(text):
        if not state.check_token(token_id):
            return False
        state.accept_token(token_id)
    return state.is_accepting


SEARCH = '{"name": "search", "arguments": {"query": "a"}}\n</tool_call>'
SUBMIT = '{"name": "submit", "arguments": {"answer": 1}}\n</tool_call>'


def test_the_first_call_of_a_turn_is_one_of_a_tool_or_of_submit():
    constraint = turns_format().call_constraint
    assert allows(constraint, f"<tool_call>\n{SEARCH}")
    assert allows(constraint, f"<tool_call>\n{SUBMIT}")
    assert not allows(constraint, "")


@pytest.mark.parametrize(
    ("text", "begins_call"),
    [("<tool_call>\n", True), ('{"name"', True), ("<", True), (" {", False), ("", False), ("So", False), ("\n", False)],
)
def test_after_a_call_the_model_begins_another_or_the_turn_ends(text: str, begins_call: bool):
    shape, session = turns_format(), ScriptedModel([text]).session()
    peeked = session.generate(shape.peek_params(session))
    assert shape.begins_call(peeked) is begins_call


def test_submit_stands_alone_in_its_turn():
    constraint = turns_format().later_call_constraint
    assert allows(constraint, f"<tool_call>\n{SEARCH}")
    assert not allows(constraint, f"<tool_call>\n{SUBMIT}")


def test_without_tools_no_call_is_a_further_one():
    assert turns_format(tools=()).later_call_constraint is None


def test_forced_outputs_are_a_call_of_submit_under_its_schema():
    constraint = turns_format().submit_constraint
    assert allows(constraint, f"<tool_call>\n{SUBMIT}")
    assert not allows(constraint, f"<tool_call>\n{SUBMIT.replace('1', 'true')}")
    assert not allows(constraint, f"<tool_call>\n{SEARCH}")


def test_a_conversation_is_written_as_the_chat_template_has_it():
    turns = [
        Turn(index=0, inputs={"question": "A?"}, thought="Both.", calls=calls("a", "b")),
        Turn(index=1, inputs=None, thought="", calls=calls("c")),
        Turn(index=2, inputs={"question": "D?"}, thought="Done.", calls=calls("d")),
    ]
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "%s"}}\n</tool_call>'
    text = turns_format().turns(turns).text
    assert text.partition("<|im_start|>user\n")[2] == (
        "question: A?<|im_end|>\n"
        f"<|im_start|>assistant\nBoth.\n{call % 'a'}\n{call % 'b'}<|im_end|>\n"
        "<|im_start|>tool\nA<|im_end|>\n<|im_start|>tool\nB<|im_end|>\n"
        f"<|im_start|>assistant\n{call % 'c'}<|im_end|>\n<|im_start|>tool\nC<|im_end|>\n"
        "<|im_start|>user\nquestion: D?<|im_end|>\n"
        f"<|im_start|>assistant\nDone.\n{call % 'd'}"
    )


def test_tags_in_observations_and_messages_are_text():
    shape = turns_format()
    prompt = shape.observations(["<tool_call>", "</tool_call>"]) + shape.message({"question": "<tool_call>"})
    assert [span.is_control for span in prompt.spans if "tool_call" in span.text] == [False] * 3


class DropsToolMessages(ScriptedModel):
    def render_chat(self, messages: Any, **options: Any) -> PromptText:
        told = super().render_chat(messages, **options).text
        return PromptText((TextSpan(told.replace("%sample-second%", ""), is_control=True),))


def test_a_chat_template_that_drops_tool_messages_is_refused():
    with pytest.raises(ConfigError, match=r"take sureact\.ReAct"):
        turns_format(DropsToolMessages([]))


def test_the_digest_changes_with_the_tools_and_the_instructions():
    same = turns_format().digest
    assert turns_format().digest == same
    assert turns_format(tools=()).digest != same
    agent = ReActV2("question -> answer: int", [search], lm=ScriptedModel([]))
    agent.react.signature = agent.react.signature.with_instructions("Be brief.")
    assert agent.prompt_format.digest != same


@pytest.mark.model
def test_qwens_template_itself_writes_the_same(tokenizing_model: Any):
    shape = turns_format(tokenizing_model)
    turns = [
        Turn(index=0, inputs={"question": "A?"}, thought="Both.", calls=calls("a", "b")),
        Turn(index=1, inputs={"question": "B?"}, thought="Done.", calls=calls("c")),
    ]
    system, _, _ = shape.opening({"question": "A?"}).text.partition("<|im_start|>user\n")
    messages: list[Any] = [{"role": "user", "content": "question: A?"}]
    for turn, message in zip(turns, ("question: B?", None), strict=True):
        functions = [{"function": {"name": c.tool_name, "arguments": c.tool_args}} for c in turn.calls]
        messages.append({"role": "assistant", "content": turn.thought, "tool_calls": functions})
        messages += [{"role": "tool", "content": call.observation} for call in turn.calls]
        messages += [{"role": "user", "content": message}] if message else []
    expected = tokenizing_model.render_chat(messages, add_generation_prompt=False).text.partition("question: A?")[2]
    found = (shape.turns(turns) + shape.observations_of(turns[-1])).text
    assert found.removeprefix(system).partition("question: A?")[2] == expected


@pytest.mark.model
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=3), message=st.text(max_size=30))
def test_ids_built_piece_by_piece_are_those_of_the_whole_text(tokenizing_model: Any, texts: list[str], message: str):
    shape = turns_format(tokenizing_model)
    call = shape.call("search", '{"query": "a b", "k": 3}')
    turn = [call, *(piece for _ in texts[1:] for piece in (shape.between_calls, call)), shape.observations(texts)]
    pieces = [shape.opening({"question": "Who?"}), shape.thought_start, plain_text("I look.\n"), *turn]
    pieces += [shape.message({"question": message}), shape.thought_start, *turn]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    built = [token_id for piece in pieces for token_id in tokenizing_model.tokenizer.encode_prompt(piece)]
    assert built == tokenizing_model.tokenizer.encode_prompt(whole)
