"""This project's constraints as the engine of a conformance run, through their public interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.constraints.choice import choice
from sureact.constraints.json_schema import JsonSchemaConstraint, json_schema
from sureact.constraints.regex import regex
from sureact.constraints.token_bitmask import allocate_token_bitmask
from sureact.errors import SureactError
from sureact.evaluation.conformance.schema_engine import CompiledCase, SchemaEngine, Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from sureact.constraints.constraint import CompiledConstraint, Constraint, ConstraintState
    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.schema_engine import SchemaPolicy
    from sureact.tokens.vocabulary import Vocabulary


class OwnEngine(SchemaEngine):
    """`json_schema`, `regex` and `choice`, with free whitespace around what JSON allows it."""

    def __init__(self, vocabulary: Vocabulary, policy: SchemaPolicy) -> None:
        self._vocabulary = vocabulary
        self._policy = policy
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)

    def compile(self, case: ConformanceCase) -> CompiledCase:
        """Compile the case."""
        constraint = case_constraint(case, self._policy)
        # Past the cache of compiled constraints: every case is met once, and a cached one would have no time.
        compile_now = (
            constraint.compile_uncached if isinstance(constraint, JsonSchemaConstraint) else constraint.compile
        )
        return _OwnCase(constraint, compile_now(self._vocabulary), self._bitmask)


def case_constraint(case: ConformanceCase, policy: SchemaPolicy) -> Constraint:
    """Return the constraint that a user would write for a case.

    Raises:
        ConfigError: the case's schema is no schema, pattern or list of texts.
    """
    match case.kind:
        case "choice":
            return choice(case.schema)
        case "regex":
            return regex(case.schema)
        case "json_schema":
            return json_schema(
                case.schema,
                whitespace="any",
                additional_properties="closed" if policy.closed else "schema",
                key_order=policy.key_order,
                format=policy.format,
                resources=policy.resources,
            )


class _OwnCase(CompiledCase):
    def __init__(self, constraint: Constraint, compiled: CompiledConstraint, bitmask: torch.Tensor) -> None:
        self._constraint = constraint
        self._compiled = compiled
        self._bitmask = bitmask
        self.is_guarded = compiled.is_guarded

    def new_walk(self) -> Walk:
        return _OwnWalk(self._compiled.new_state(), self._bitmask)

    def fault(self, text: str) -> str | None:
        try:
            self._constraint.parse(text)
        except SureactError as error:
            return str(error)
        return None


class _OwnWalk(Walk):
    def __init__(self, state: ConstraintState, bitmask: torch.Tensor) -> None:
        self._state = state
        self._bitmask = bitmask

    def accept(self, token_ids: Sequence[int]) -> int:
        return self._state.accept_tokens(token_ids)

    def fill_mask(self) -> None:
        self._state.fill_bitmask(self._bitmask, 0)

    @property
    def can_end(self) -> bool:
        return self._state.is_accepting
