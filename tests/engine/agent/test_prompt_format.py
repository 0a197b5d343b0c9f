import pytest

from sureact.agent.prompt_format import call_branches, plain_text, template_text
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.errors import UnsupportedSchemaError

CALLS = {
    "fields": [" I look.\n", "Action: look\nArguments: {}\n", " Done.\n", "Action: finish\nArguments: {}\n"],
    "qwen_tool_call": [
        "I look.\n<tool_call>",
        '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
        "Done.<tool_call>",
        '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>',
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_finished_step_is_rendered_as_the_run_built_it(name: str):
    lm = ScriptedModel([*CALLS[name], '{"reasoning": "", "answer": "a"}'])
    react = ReAct("q -> answer", [Tool(lambda: "seen", name="look", desc="")], lm=lm, prompt_format=name)
    prediction = react(q="?")
    rendered = react.prompt_format.opening({"q": "?"})
    for step in prediction.trajectory.steps:
        rendered += react.prompt_format.step(step)
    rendered += react.prompt_format.outputs_request()
    expected = lm.session()
    expected.append(rendered)
    ids = lm.sessions[0].token_ids
    assert ids[: len(expected.token_ids)] == expected.token_ids


def test_what_is_text_and_what_is_template_stay_apart():
    spans = (plain_text("a") + template_text("b")).spans
    assert [(span.text, span.is_control) for span in spans] == [("a", False), ("b", True)]


def test_a_tool_that_cannot_be_enforced_is_refused_before_a_run():
    tool = Tool(print, name="p", args={"a": {"type": "array", "uniqueItems": True}})
    with pytest.raises(UnsupportedSchemaError):
        call_branches({"p": tool})
