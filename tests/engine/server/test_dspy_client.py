"""dspy's own client of OpenAI's protocol, over a loopback socket."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

dspy: Any = pytest.importorskip("dspy", reason="dspy is not installed")


def marked(**fields: str) -> str:
    """Write fields as dspy's chat adapter has them."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()) + "\n\n[[ ## completed ## ]]"


@pytest.fixture
def model(served: str) -> Iterator[Any]:
    """A model with dspy's defaults for one that it does not know."""
    lm = dspy.LM(
        "openai/tiny",
        api_base=f"{served}/v1",
        api_key="none",
        cache=False,
        num_retries=0,
        max_tokens=200,
        temperature=0,
    )
    with dspy.context(lm=lm):
        yield lm


def test_chats(model: Any, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀")
    assert model("hi") == ["Hello 😀"]


def test_predicts(model: Any, engine: ScriptedEngine) -> None:
    engine.say(marked(answer="42"))
    assert dspy.Predict("question -> answer: int")(question="20 + 22?").answer == 42


def test_json_adapters_get_their_schema(model: Any, engine: ScriptedEngine) -> None:
    engine.say('{"answer": 42}')
    with dspy.context(adapter=dspy.JSONAdapter()):
        assert dspy.Predict("question -> answer: int")(question="20 + 22?").answer == 42


def test_react_runs_a_loop(model: Any, engine: ScriptedEngine) -> None:
    call = marked(next_thought="I add.", next_tool_name="add", next_tool_args='{"a": 20, "b": 22}')
    end = marked(next_thought="Done.", next_tool_name="finish", next_tool_args="{}")

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        engine.say(end)
        return a + b

    def finish_soon(**_: Any) -> None:
        engine.say(marked(reasoning="It was added.", answer="42"))

    engine.say(call)
    react = dspy.ReAct("question -> answer: int", tools=[add])
    react.tools["finish"].func = finish_soon
    result = react(question="20 + 22?")
    assert result.answer == 42
    assert result.trajectory["tool_args_0"] == {"a": 20, "b": 22}
    assert result.trajectory["observation_0"] == 42
    assert result.trajectory["tool_name_1"] == "finish"
