"""Generations that can only be what was asked for: a choice, a regular expression, a JSON schema, a typed signature."""

import json

from sureact import Engine, Predict, SamplingParams, choice, json_schema, regex

CITY_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 40}, "founded": {"type": "integer", "minimum": 0}},
    "required": ["city", "founded"],
    "additionalProperties": False,
}


def main() -> None:
    """Constrain one model in four ways."""
    engine = Engine("qwen2.5-coder-0.5b-instruct")

    def ask(question: str, constraint: object) -> str:
        params = SamplingParams(max_tokens=80, on_max_tokens="close")
        return engine.chat([{"role": "user", "content": question}], params, constraint).text

    review = "The coffee was cold and the waiter rude."
    print(ask(f"Is this review positive, negative or neutral? {review}", choice(["positive", "negative", "neutral"])))
    print(ask("On which day did people first land on the moon?", regex(r"\d{4}-\d{2}-\d{2}")))
    print(json.loads(ask("Tell about Rome in JSON.", json_schema(CITY_SCHEMA))))
    classify = Predict("ticket: str -> team: Literal['billing', 'repair', 'sales'], urgent: bool", lm=engine)
    prediction = classify(ticket="My router has been dead since this morning and I work from home!")
    print(prediction.team, prediction.urgent)
    engine.close()


if __name__ == "__main__":
    main()
