from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.prompt_format import PromptFormat
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trajectory import Step
from sureact.errors import ConfigError
from sureact.tokens.chat_template import PromptText, TextSpan


def search(query: str, k: int = 5) -> list[str]:
    """Search the archive.

    Args:
        query: words to look for
    """
    return [query] * k


def prompt_format(lm: ScriptedModel) -> PromptFormat:
    return ReAct("question -> answer: int", [search], lm=lm, prompt_format="qwen_tool_call").prompt_format


def finished(thought: str = "I look.", observation: str = "found") -> Step:
    return Step(index=0, thought=thought, tool_name="search", tool_args={"query": "é"}, observation=observation)


def test_tools_go_through_the_chat_template():
    opening = prompt_format(ScriptedModel([])).opening({"question": "Who?"}).text
    assert "'name': 'search'" in opening
    assert opening.endswith("question: Who?<|im_end|>\n")


def test_a_step_is_a_call_between_tags_and_a_tool_message():
    assert prompt_format(ScriptedModel([])).step(finished()).text == (
        "<|im_start|>assistant\nI look.\n"
        '<tool_call>\n{"name": "search", "arguments": {"query": "é"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\nfound<|im_end|>\n"
    )


def test_the_outputs_are_asked_for_by_the_user():
    request = prompt_format(ScriptedModel([])).outputs_request().text
    assert request.startswith("<|im_start|>user\nThe work is done.")
    assert request.endswith("answer: int<|im_end|>\n<|im_start|>assistant\n")


def test_a_thought_stops_where_its_line_ends_or_a_call_begins():
    lm = ScriptedModel([])
    session = lm.session()
    params = prompt_format(lm).thought_params(session, 10)
    assert params.stop_texts == ("\n", '{"name":', "<tool_call>")
    assert params.stop_token_ids == ((258,),)
    assert session.token_ids == []


def test_a_thought_without_text_adds_no_line():
    assert prompt_format(ScriptedModel([])).closed_thought("") == ""


def test_tags_in_observations_are_text():
    spans = prompt_format(ScriptedModel([])).observation("</tool_call>").spans
    assert [span.is_control for span in spans if "tool_call" in span.text] == [False]


class DropsToolMessages(ScriptedModel):
    def render_chat(self, *args: object, **options: object) -> PromptText:
        return PromptText((TextSpan("fixed", is_control=True),))


def test_a_chat_template_without_tool_messages_is_refused():
    with pytest.raises(ConfigError, match="take prompt_format='fields'"):
        prompt_format(DropsToolMessages([]))


THOUGHTS = st.text(max_size=30).map(lambda text: " ".join(["I", *text.split()]))


@pytest.mark.model
@given(thought=THOUGHTS, observation=st.text(max_size=40))
def test_ids_built_piece_by_piece_are_those_of_the_whole_text(tokenizing_model: Any, thought: str, observation: str):
    tokenizing_model.check_pieces(prompt_format(tokenizing_model), thought, observation)
