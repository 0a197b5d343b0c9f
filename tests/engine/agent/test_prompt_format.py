import pytest

from sureact.agent.prompt_format import call_branches, ends_in_think, plain_text, template_text, think_closed
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.agent.trajectory import Step
from sureact.errors import UnsupportedSchemaError
from sureact.tokens.chat_template import PromptText

CALLS = {
    "fields": [" I look.\n", "Action: look\nArguments: {}\n", " Done.\n", "Action: finish\nArguments: {}\n"],
    "qwen_tool_call": [
        "I look.\n<tool_call>",
        '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
        "Done.<tool_call>",
        '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>',
    ],
    "qwen_react": [" I look.\n", "Action: look\nAction Input: {}\n", " Done.\n", "Final Answer:\n"],
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


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("thought", ["", " ", "\n", " \n"])
def test_an_empty_thought_is_rendered_as_the_run_built_it(name: str, thought: str):
    calls = CALLS[name][1::2]
    lm = ScriptedModel([thought, calls[0], thought, calls[1], '{"reasoning": "", "answer": "a"}'])
    react = ReAct("q -> answer", [Tool(lambda: "seen", name="look", desc="")], lm=lm, prompt_format=name)
    prediction = react(q="?")
    rendered = react.prompt_format.opening({"q": "?"})
    for step in prediction.trajectory.steps:
        rendered += react.prompt_format.step(step)
    assert "Thought:Action" not in rendered.text
    expected = lm.session()
    expected.append(rendered)
    assert lm.sessions[0].token_ids[: len(expected.token_ids)] == expected.token_ids


@pytest.mark.parametrize("name", CALLS)
def test_the_name_is_read_whatever_the_arguments_are(name: str):
    prompt_format = ReAct("q -> a", [], lm=ScriptedModel([]), prompt_format=name).prompt_format
    call = prompt_format.call("search.web", '{"a": 1e999, "b": "Action: x"}').text
    assert prompt_format.tool_name_of(call) == "search.web"
    assert prompt_format.tool_name_of(call.replace("<tool_call>", "")) == "search.web"


@pytest.mark.parametrize("name", CALLS)
def test_a_lone_surrogate_in_arguments_is_written_as_an_escape(name: str):
    prompt_format = ReAct("q -> a", [], lm=ScriptedModel([]), prompt_format=name).prompt_format
    step = Step(index=0, thought="t", tool_name="a", tool_args={"x": "\udce9\u00e9"}, observation="o")
    assert '{"x": "\\udce9\u00e9"}' in prompt_format.step(step).text


def test_what_is_text_and_what_is_template_stay_apart():
    spans = (plain_text("a") + template_text("b")).spans
    assert [(span.text, span.is_control) for span in spans] == [("a", False), ("b", True)]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        (template_text("a"), False),
        (template_text("<think>\n"), True),
        (template_text("<think>\n\n</think>\n\n"), False),
        (template_text("</think><think>") + plain_text("</think>"), True),
        (template_text("a") + plain_text("<think>"), False),
    ],
)
def test_only_a_template_can_leave_a_think_open(text: PromptText, is_open: bool):
    assert ends_in_think(text) == is_open
    assert think_closed(text).text == text.text + ("</think>\n\n" if is_open else "")


def test_a_tool_that_cannot_be_enforced_is_refused_before_a_run():
    tool = Tool(print, name="p", args={"a": {"type": "string", "pattern": r"(a)\1"}})
    with pytest.raises(UnsupportedSchemaError):
        call_branches({"p": tool})
