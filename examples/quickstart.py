"""An agent with one tool, and a typed answer."""

from sureact import Engine, ReAct

POPULATION = {"Lisbon": 545_796, "Porto": 231_800, "Braga": 193_324}


def population(city: str) -> int:
    """Number of people who live in a Portuguese city."""
    return POPULATION[city]


def main() -> None:
    """Ask which of two cities is larger."""
    engine = Engine("qwen2.5-coder-1.5b-instruct")
    agent = ReAct("question: str -> larger_city: str, people: int", [population], lm=engine)
    prediction = agent(question="Which city has more people, Porto or Braga, and how many?")
    print(prediction.larger_city, prediction.people)
    for step in prediction.trajectory.steps:
        print(step.thought, "->", step.tool_name, step.tool_args, "->", step.observation)
    engine.close()


if __name__ == "__main__":
    main()
