import pytest

from sureact.agent.tool import Tool
from sureact.agent.tool_call import run_tool
from sureact.errors import InternalError


def double(x: int) -> int:
    return x * 2


def explode() -> None:
    raise ValueError("tool blew up")


def leave() -> None:
    raise SystemExit(2)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_result_is_an_observation():
    result = run_tool(Tool(double), {"x": 4})
    assert (result.observation, result.is_error) == ("8", False)
    assert result.seconds >= 0


def test_an_error_is_an_observation_without_traceback():
    result = run_tool(Tool(explode), {})
    assert (result.observation, result.is_error) == ("Execution error in explode: ValueError: tool blew up", True)


def test_a_tool_cannot_end_the_process():
    assert run_tool(Tool(leave), {}).observation == "Execution error in leave: SystemExit: 2"


def test_an_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        run_tool(Tool(interrupt), {})


def test_arguments_that_violate_the_schema_never_reach_the_tool():
    with pytest.raises(InternalError, match="violate"):
        run_tool(Tool(double), {"x": "4"})
