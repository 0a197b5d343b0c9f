"""Typed outputs: one generation under the schema of a signature's output fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from sureact.agent.json_object import JsonObject, ObjectField
from sureact.agent.type_notation import type_notation
from sureact.errors import OutputTruncatedError, SignatureError

if TYPE_CHECKING:
    from sureact.agent.signature import Signature
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput

REASONING = "reasoning"
# Greedy small models can run on inside a string; a bound keeps the budget for the fields that follow.
_REASONING_MAX_CHARACTERS = 600


class OutputExtraction:
    """What the outputs of a signature must look like as JSON, and the way from that text to Python values."""

    def __init__(self, signature: Signature, *, with_reasoning: bool, budget_option: str = "max_tokens") -> None:
        """Build the constraint.

        Args:
            signature: whose outputs are wanted.
            with_reasoning: whether a free text `reasoning` comes before them.
            budget_option: what the user sets to give the outputs more tokens, for the message when they did not end.

        Raises:
            UnsupportedSchemaError: an output type cannot be enforced.
        """
        from sureact.constraints.json_schema import json_schema

        self._budget_option = budget_option
        reasoning = {REASONING: reasoning_field()} if with_reasoning else {}
        self._object = JsonObject("Outputs", reasoning | signature.outputs)
        constraint = json_schema(self._object.schema, additional_properties="closed")
        constraint.check()  # refuses now what it would refuse in the middle of a run
        self.constraint: Constraint = constraint

    def field_lines(self) -> list[str]:
        """Return one line per field, `name: type, description`, for a prompt."""
        root = self._object.schema
        lines: list[str] = []
        for name, schema in root["properties"].items():
            desc = schema.get("description", "")
            lines.append(f"{name}: {type_notation(schema, root)}{', ' + desc if desc else ''}")
        return lines

    def parse(self, output: StepOutput) -> dict[str, Any]:
        """Turn the generated text into the outputs.

        Raises:
            OutputTruncatedError: `max_tokens` came before the end of the JSON.
            SignatureError: a validator of the user's own type refused a value.
        """
        if output.finish_reason == "length":
            raise OutputTruncatedError(
                f"The outputs did not end within {output.usage.completion_tokens} tokens; raise {self._budget_option}. "
                f"What came: {output.text!r}."
            )
        return self.convert(cast("dict[str, object]", self.constraint.parse(output.text)))

    def convert(self, values: dict[str, object]) -> dict[str, Any]:
        """Turn outputs as parsed JSON into Python values.

        Raises:
            SignatureError: a validator of the user's own type refused a value.
        """
        try:
            return self._object.convert(values)
        except ValueError as error:
            raise SignatureError(f"The outputs fit their schema, but a type's validator refused: {error}") from error


def reasoning_field() -> ObjectField:
    """Return the field of the text that comes before outputs."""
    from pydantic import StringConstraints

    bounded = Annotated[str, StringConstraints(max_length=_REASONING_MAX_CHARACTERS)]
    return ObjectField(bounded, "how the outputs follow, in one or two sentences")
