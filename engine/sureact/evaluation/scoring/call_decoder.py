"""Ways to decode a call in Qwen's form at the end of a context: under our grammar, freely, or under a peer's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from sureact.agent import call_opening
from sureact.agent.call_opening import CLOSE_TAG, OPEN_TAG, is_stopped
from sureact.agent.formats.qwen_tool_call import QwenToolCallFormat
from sureact.agent.prompt_format import call_branches, ids_of_tag, plain_text, template_text
from sureact.constraints.call_grammar import ControlToken, tool_call_grammar
from sureact.errors import ConstraintError
from sureact.evaluation.scoring.call_reading import ReadCall, first_object, judged, read_calls
from sureact.sampling_params import RunawayLimits, SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModelSession
    from sureact.agent.tool import Tool
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput

MAX_CALL_TOKENS = 512
MAX_ANSWER_TOKENS = 512

MakeConstraint = Callable[[Mapping[str, Any]], "Constraint"]
"""Makes the constraint that a peer puts on JSON, of its schema."""


class DecodedCalls(NamedTuple):
    """What was decoded where a call was due."""

    calls: Sequence[ReadCall]
    num_tokens: int
    is_over: bool
    """Whether the model ended its turn there, or ran out of tokens."""


class CallDecoder(ABC):
    """Decodes calls on a session."""

    is_free: bool = False
    """Whether nothing constrains the text, so that a thought and a call are one generation."""
    weighs_further_calls: bool = False
    """Whether the odds of another call decide after a call, and not the next text."""

    @abstractmethod
    def decode(self, session: LanguageModelSession, tools: Mapping[str, Tool], *, is_bare: bool) -> DecodedCalls:
        """Decode what the model began with a tag, which is not in the context yet.

        Args:
            session: ends where the tag would begin.
            tools: those that may be called.
            is_bare: whether it began with the JSON of a call, without the tag.
        """

    @abstractmethod
    def answer(self, session: LanguageModelSession, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, int]:
        """Decode an object of a schema; return it, or None where there is none, and the number of tokens."""


class OwnDecoder(CallDecoder):
    """Ours: name, arguments and tags under one grammar. Answers are the agent's own affair."""

    weighs_further_calls = True

    @override
    def decode(self, session: LanguageModelSession, tools: Mapping[str, Tool], *, is_bare: bool) -> DecodedCalls:
        """Decode one call; a bare one gets its tag."""
        constraint = tool_call_grammar(
            call_branches(tools),
            prefix=(ControlToken(OPEN_TAG), QwenToolCallFormat.before_name),
            delimiter=QwenToolCallFormat.before_arguments,
            suffix=("}\n", ControlToken(CLOSE_TAG)),
        )
        # As our agents do: text that runs on is ended, and a call is complete within its budget.
        params = SamplingParams(max_tokens=MAX_CALL_TOKENS, on_max_tokens="close", runaway=RunawayLimits())
        output = session.generate(params, constraint)
        num_tokens = output.usage.completion_tokens
        if output.finish_reason == "length":
            return DecodedCalls([_cut_off()], num_tokens, is_over=True)
        try:
            name, args = constraint.parse(output.text)
        except ConstraintError as error:
            return DecodedCalls([ReadCall("", {}, str(error))], num_tokens, is_over=False)
        return DecodedCalls([judged(name, args, tools)], num_tokens, is_over=False)

    @override
    def answer(self, session: LanguageModelSession, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, int]:
        """Not asked for: `ReAct` extracts the outputs itself."""
        raise NotImplementedError


class FreeDecoder(CallDecoder):
    """The peer `unconstrained`: whatever the model writes, read afterwards."""

    is_free = True

    @override
    def decode(self, session: LanguageModelSession, tools: Mapping[str, Tool], *, is_bare: bool) -> DecodedCalls:
        """Decode up to the closing tag or the end of the turn; what follows a bare call may be further ones."""
        if not is_bare:
            session.append(template_text(OPEN_TAG))
        params = SamplingParams(max_tokens=MAX_CALL_TOKENS, stop=closing_stops(session))
        output = session.generate(params)
        if is_stopped(output):
            session.append(template_text(CLOSE_TAG))
        return DecodedCalls(
            read_calls(output.text, tools) or [_unread(output.text)],
            output.usage.completion_tokens,
            is_over=not is_stopped(output),
        )

    @override
    def answer(self, session: LanguageModelSession, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, int]:
        """Decode to the end of the turn and take the first object in it."""
        output = session.generate(SamplingParams(max_tokens=MAX_ANSWER_TOKENS))
        return first_object(output.text), output.usage.completion_tokens


class GrammarDecoder(CallDecoder):
    """A peer that constrains the JSON between the tags by a schema: an object with one of the names and its arguments.

    The tags are written by the client, as such libraries do.
    """

    def __init__(self, make_constraint: MakeConstraint) -> None:
        self._make_constraint = make_constraint

    @override
    def decode(self, session: LanguageModelSession, tools: Mapping[str, Tool], *, is_bare: bool) -> DecodedCalls:
        """Decode one call between tags."""
        session.append(template_text(OPEN_TAG) + plain_text("\n"))
        output = self._json(session, calls_schema(tools), MAX_CALL_TOKENS)
        session.append(plain_text("\n") + template_text(CLOSE_TAG))
        is_cut = output.finish_reason == "length"
        calls = [_cut_off()] if is_cut else read_calls(output.text, tools) or [_unread(output.text)]
        return DecodedCalls(calls, output.usage.completion_tokens, is_over=is_cut)

    @override
    def answer(self, session: LanguageModelSession, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, int]:
        """Decode the object."""
        output = self._json(session, schema, MAX_ANSWER_TOKENS)
        return first_object(output.text), output.usage.completion_tokens

    def _json(self, session: LanguageModelSession, schema: Mapping[str, Any], max_tokens: int) -> StepOutput:
        return session.generate(SamplingParams(max_tokens=max_tokens), self._make_constraint(schema))


def calls_schema(tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return the schema of a call of one of the tools, closed as ours is."""
    branches: list[dict[str, Any]] = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": {"additionalProperties": False, **tool.parameters}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, tool in tools.items()
    ]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def opening_stops(session: LanguageModelSession) -> list[str | tuple[int, ...]]:
    """Return what a call begins with: its tag, as text and as ids, or the bare JSON of small models."""
    return call_opening.opening_stops(ids_of_tag(OPEN_TAG, session))


def closing_stops(session: LanguageModelSession) -> list[str | tuple[int, ...]]:
    """Return what a call ends with."""
    return [CLOSE_TAG, ids_of_tag(CLOSE_TAG, session)]


def _cut_off() -> ReadCall:
    return ReadCall("", {}, f"The call did not end within {MAX_CALL_TOKENS} tokens.")


def _unread(text: str) -> ReadCall:
    return ReadCall("", {}, f"No call can be read in {text!r}.")
