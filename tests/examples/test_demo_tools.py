from pathlib import Path

import pytest

from sureact.agent.tool import Tool
from sureact.agent.tool_file import load_tools

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def tools() -> dict[str, Tool]:
    return {tool.name: tool for tool in load_tools(EXAMPLES / "demo_tools.py")}


def test_the_database_can_be_read_but_not_written(tools: dict[str, Tool]):
    query = tools["query_database"]
    assert query(sql="SELECT SUM(quantity * unit_price) FROM orders WHERE customer = 'Alba'") == [[324.0]]
    with pytest.raises(Exception, match="readonly"):
        query(sql="DELETE FROM orders")


def test_notes_are_found_and_read(tools: dict[str, Tool]):
    assert tools["search_files"](text="loyalty discount for Alba") == [
        "discounts.txt: Loyalty discount of Alba: 8 percent."
    ]
    assert "6.90" in str(tools["read_file"](name="shipping.txt"))
    with pytest.raises(ValueError, match="no note"):
        tools["read_file"](name="../pyproject.toml")


def test_the_calculator_calculates_and_runs_nothing_else(tools: dict[str, Tool]):
    assert tools["calculator"](expression="-(3 + 4) * 2.5 / 2") == -8.75
    for expression in ("__import__('os')", "2 ** 9", "a", "'x'"):
        with pytest.raises(ValueError, match="not arithmetic"):
            tools["calculator"](expression=expression)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_short(example: Path):
    assert len(example.read_text().splitlines()) <= 60
