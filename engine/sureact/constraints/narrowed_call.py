"""A tool call that may name some of the tools only. The grammar stays that of all tools, compiled once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.guards.call_guard import CallGuard
from sureact.constraints.guards.guarded_state import GuardedConstraint
from sureact.constraints.schema.finite_values import finite_values
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.constraints.call_grammar import ToolCallConstraint
    from sureact.tokens.vocabulary import Vocabulary

_COUNTED_KEYWORDS = {"type", "title", "description", "properties", "required", "additionalProperties"}


def narrowed_call(call: ToolCallConstraint, names: Collection[str]) -> ToolCallConstraint | NarrowedCall:
    """Return a constraint that allows the calls of `call` which name one of `names`; `call` itself if these are all.

    Raises:
        ConfigError: no name, or one that `call` does not have.
    """
    known = call.all_names
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(f"The names must be among {', '.join(known)}, and at least one; they are {list(names)!r}.")
    kept = tuple(name for name in known if name in names)
    return call if kept == known else NarrowedCall(call, kept)


def num_possible_arguments(schema: Mapping[str, Any]) -> int | None:
    """Return how many objects of arguments there can be, at most; None where there is no telling.

    Args:
        schema: a JSON schema of type `object`; one that declares properties is closed unless it says otherwise.
    """
    is_open = "properties" not in schema or schema.get("additionalProperties", False) is not False
    if is_open or schema.keys() - _COUNTED_KEYWORDS or "$ref" in json.dumps(schema):
        return None
    required = schema.get("required", ())
    counts: list[int] = []
    for name, values in schema["properties"].items():
        listed = finite_values(values, {})
        if listed is None:
            return None
        counts.append(len(listed) + (name not in required))
    return prod(counts)


@dataclass(frozen=True, slots=True)
class NarrowedCall(Constraint):
    """The calls of another constraint that name one of some tools."""

    call: ToolCallConstraint
    names: tuple[str, ...]

    @property
    def cache_key(self) -> str:
        """That of all calls, and the names that are left."""
        return "narrowed_call:" + json.dumps([self.call.cache_key, self.names])

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary.

        A guard refuses what cannot become one of the names, which is never a dead end: whatever begins like a name can
        go on as it.

        Raises:
            ConstraintError: see `ToolCallConstraint.compile`.
        """
        grammar = self.call.compile(vocabulary)
        calls = self.call.unguarded_calls()
        if isinstance(grammar, GuardedConstraint) and isinstance(grammar.guard, CallGuard):
            grammar, calls = grammar.grammar, list(grammar.guard.calls)
        kept = [call for name, call in zip(self.call.all_names, calls, strict=True) if name in self.names]
        # Not kept beside what is compiled: it is made at once, and the steps of many runs would push grammars out.
        return GuardedConstraint(grammar, CallGuard(kept), vocabulary)

    def parse(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return the tool's name and its arguments; see `ToolCallConstraint.parse`.

        Raises:
            ConstraintError: the arguments are a text that the grammar could not exclude.
            InternalError: `text` is no call.
        """
        return self.call.parse(text)
