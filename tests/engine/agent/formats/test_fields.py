from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.prompt_format import PromptFormat
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trajectory import Step


def search(query: str, k: int = 5) -> list[str]:
    """Search the archive.

    Args:
        query: words to look for
    """
    return [query] * k


def prompt_format(lm: ScriptedModel) -> PromptFormat:
    return ReAct("question -> answer: int", [search], lm=lm, prompt_format="fields").prompt_format


def finished(thought: str = "I look.", observation: str = "found") -> Step:
    return Step(index=0, thought=thought, tool_name="search", tool_args={"query": "é"}, observation=observation)


def test_tools_are_listed_as_typed_signatures_beside_an_example_with_others():
    opening = prompt_format(ScriptedModel([])).opening({"question": "Who?"}).text
    assert "search(query: str, k: int = 5)\n    Search the archive.\n    query: words to look for\n" in opening
    assert "finish()" in opening
    assert "read_sensor" in opening
    assert "answer: int" in opening
    assert "question: Who?" in opening


def test_a_step_reads_as_labelled_lines():
    assert prompt_format(ScriptedModel([])).step(finished()).text == (
        'Thought: I look.\nAction: search\nArguments: {"query": "é"}\nObservation: found\n'
    )


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a \n\n", " a"), ("a\nb", " a\nb")])
def test_an_observation_ends_its_line_and_nothing_more(text: str, shown: str):
    assert prompt_format(ScriptedModel([])).observation(text).text == f"Observation:{shown}\n"


@pytest.mark.parametrize("text", ["", " ", "\n", " \n"])
def test_an_empty_thought_ends_its_line(text: str):
    assert prompt_format(ScriptedModel([])).closed_thought(text) == "\n"


def test_no_text_ends_in_a_space():
    fields = prompt_format(ScriptedModel([]))
    pieces = [fields.thought_start, fields.call("a", "{}"), fields.observation(" "), fields.outputs_request()]
    assert not [piece.text for piece in pieces if piece.text.endswith(" ")]


THOUGHTS = st.text(max_size=30).map(lambda text: " ".join(["I", *text.split()]))


@pytest.mark.model
@given(thought=THOUGHTS, observation=st.text(max_size=40))
def test_ids_built_piece_by_piece_are_those_of_the_whole_text(tokenizing_model: Any, thought: str, observation: str):
    tokenizing_model.check_pieces(prompt_format(tokenizing_model), thought, observation)
