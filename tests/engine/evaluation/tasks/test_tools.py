"""The tools give what the package's data holds, the same each time."""

from datetime import date

import pytest

from sureact.agent.tool_call import run_tool
from sureact.evaluation.tasks import tools
from sureact.evaluation.tasks.task_set import all_tasks
from sureact.evaluation.tasks.tools import task_tools, tools_named


def test_every_tool_and_argument_is_described() -> None:
    bare = [tool.name for tool in task_tools().values() if not tool.desc]
    assert bare == []
    assert "ships(ship_id, name" in task_tools()["run_sql"].desc
    assert {name for task in all_tasks() for name in task.tools} == set(task_tools())


def test_tools_come_in_the_order_of_their_names() -> None:
    assert [tool.name for tool in tools_named(["weather", "calculate"])] == ["weather", "calculate"]


def test_files_are_listed_found_and_read() -> None:
    assert "policies/fares.txt" in tools.list_files()
    assert tools.find_in_files("RESIDENTS") == [
        "policies/fares.txt: Residents of the islands pay 60 percent of the adult fare."
    ]
    assert tools.read_file("harbors/hollin.txt").startswith("Harbor of Hollin")


def test_events_are_found_by_day_title_and_person() -> None:
    assert [event["title"] for event in tools.list_events(date(2025, 7, 1), date(2025, 7, 1))] == [
        "Signing of the new ship"
    ]
    assert len(tools.find_events("harbor council")) == 2
    assert len(tools.find_events("hanne voss")) == 3


def test_days_are_counted() -> None:
    assert tools.add_days(date(2025, 2, 27), 2) == "2025-03-01"
    assert tools.days_between(date(2025, 3, 1), date(2025, 2, 27)) == -2
    assert tools.weekday_of(date(2025, 6, 18)) == "Wednesday"


def test_articles_are_ranked_by_title_then_text() -> None:
    found = tools.search_articles("tern")
    assert [article["title"] for article in found] == ["Tern (bird)", "Tern (steamer)", "Saltmarsh Ferries"]
    assert len(tools.search_articles("the island is built")) == 5
    assert tools.search_articles("zzz") == []


def test_numbers_money_weather_and_phones_are_looked_up() -> None:
    assert tools.summarize_numbers([1, 2.5]) == {"count": 2, "sum": 3.5, "mean": 1.75, "min": 1, "max": 2.5}
    assert tools.convert_currency(10, "USD", "EUR") == 9.2
    assert set(tools.weather("Skerry", date(2025, 5, 1))) == {"temperature_celsius", "wind_knots"}
    assert tools.phone_number("Lise Penrose").startswith("555-")


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("read_file", {"path": "secret.txt"}, "no file 'secret.txt'"),
        ("open_article", {"title": "Nothing"}, "no article 'Nothing'"),
        ("convert_currency", {"amount": 1, "from_currency": "XXX", "to_currency": "EUR"}, "no rate of 'XXX'"),
        ("weather", {"port": "Skerry", "day": "2024-05-01"}, "Nothing is recorded"),
        ("phone_number", {"name": "Nobody"}, "no number"),
        ("summarize_numbers", {"numbers": []}, "no numbers"),
        ("add_days", {"day": "2025-01-01", "days": 10**12}, "is no date"),
        ("run_sql", {"query": "DROP TABLE ships"}, "not authorized"),
        ("calculate", {"expression": "1 / 0"}, "division by zero"),
    ],
)
def test_a_mistake_is_an_observation_that_says_what_is_wrong(name: str, args: dict[str, object], said: str) -> None:
    result = run_tool(task_tools()[name], args)
    assert result.is_error
    assert said in result.observation
