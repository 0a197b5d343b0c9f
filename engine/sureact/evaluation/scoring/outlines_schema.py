"""A JSON schema as outlines enforces it: its own regex of the schema and its own masks, on our engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.constraints.compiler import compile_once
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.engines.outlines_core import OutlinesCoreConstraint, compile_index
from sureact.constraints.token_bitmask import legal_bitmask
from sureact.errors import ConstraintCompileError

if TYPE_CHECKING:
    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class OutlinesSchema(Constraint):
    """What outlines makes of a schema by default, with nothing refused or judged by us."""

    schema_text: str

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> OutlinesSchema:
        """Return the constraint of a schema."""
        return cls(json.dumps(schema))

    @property
    def cache_key(self) -> str:
        """The schema."""
        return f"outlines:{self.schema_text}"

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Build the automaton.

        Raises:
            ConstraintCompileError: outlines refuses the schema.
        """
        return compile_once(self.cache_key, vocabulary, lambda: self._compile(vocabulary))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        index = compile_index(_regex(self.schema_text), vocabulary)
        return OutlinesCoreConstraint(index, vocabulary, legal_bitmask(vocabulary))


def _regex(schema_text: str) -> str:
    from jsonschema.exceptions import SchemaError
    from outlines.types.dsl import JsonSchema, to_regex

    try:
        return to_regex(JsonSchema(schema_text))
    except (SchemaError, NotImplementedError, TypeError, ValueError) as error:
        raise ConstraintCompileError(f"outlines refuses the schema: {type(error).__name__}: {error}") from error
