"""The types and templates of outlines on an engine of sureact, and a prompt written as a function."""

from typing import Literal

import outlines
from outlines.types import Regex
from pydantic import BaseModel

from sureact import Engine, Tool, prompt
from sureact.integrations.outlines import from_engine, template_from_string


class City(BaseModel):
    """What we want to know of a city."""

    name: Literal["Rome", "Paris", "Lisbon"]
    is_capital: bool


def population(city: str) -> int:
    """Number of people who live in a city."""
    return len(city)


@prompt
def pick_tool(question: str, tools: list[Tool]) -> None:
    """Which of these tools answers the question? Say its name.

    {% for tool in tools %}
    {{ tool | name }}({{ tool | args }}): {{ tool | description }}
    {% endfor %}

    {{ question }}
    """


def main() -> None:
    """Ask one model in four ways."""
    with Engine("qwen2.5-coder-0.5b-instruct") as engine:
        model = from_engine(engine)
        ask = template_from_string("Fill in as JSON: {{ schema | schema }}\nThe city is {{ city }}.")
        city = City.model_validate_json(model(ask(schema=City, city="Lisbon, Portugal"), City, max_tokens=40))
        print(city.name, city.is_capital)
        print(model("When did people first land on the moon?", Regex(r"19\d\d-\d\d-\d\d"), max_tokens=20))
        judge = outlines.Generator(model, Literal["positive", "negative"])
        print(judge.batch(["Is this positive? The food was great!", "Is this positive? The food was cold."]))
        print(model(pick_tool("How many people live in Rome?", [Tool(population)]), Literal["population", "finish"]))


if __name__ == "__main__":
    main()
