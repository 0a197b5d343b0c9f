"""A JSON schema on its way to a mask: its normal form, its grammars from tight to loose, and its guard."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.fault import check_patterns, patterns_of, unsatisfiable_error
from sureact.constraints.schema.grammar_schema import grammar_schemas
from sureact.constraints.schema.leeway import proves_unsatisfiable
from sureact.constraints.schema.normal_form import normalize
from sureact.constraints.schema.object_closing import close_objects
from sureact.constraints.schema.unsatisfiability import unsatisfiable
from sureact.errors import ConstraintCompileError, InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sureact.constraints.schema.grammar_schema import GrammarSchema
    from sureact.constraints.schema.keywords import Schema
    from sureact.constraints.schema.leeway import Leeway
    from sureact.constraints.schema.normal_form import NormalSchema

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSpelling:
    """Which of the many spellings of a JSON value are allowed."""

    item_separator: str = ", "
    key_separator: str = ": "
    free_whitespace: bool = False
    any_key_order: bool = False
    ascii_only: bool = False

    @property
    def cache_key(self) -> str:
        """Text that equal spellings share."""
        return json.dumps(
            [self.item_separator, self.key_separator, self.free_whitespace, self.any_key_order, self.ascii_only]
        )

    @property
    def grammar_options(self) -> dict[str, Any]:
        """What llguidance calls `x-guidance`; its separators are regexes."""
        options: dict[str, Any] = {"whitespace_flexible": True, "json_allow_general_unicode_escapes": True}
        if not self.free_whitespace:
            options |= {
                "whitespace_flexible": False,
                "item_separator": re.escape(self.item_separator),
                "key_separator": re.escape(self.key_separator),
            }
        return options


@dataclass(frozen=True, slots=True)
class ChosenGrammar(Generic[_T]):
    """The tightest grammar of a schema that llguidance takes."""

    grammar: GrammarSchema
    schema: dict[str, Any]
    """That of the grammar, with the spelling options of llguidance."""
    compiled: _T
    guard: JsonGuard | None
    """None when every text of the grammar is valid."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSchema:
    """A schema ready for any vocabulary."""

    source: Schema
    """As it was given, for error messages."""
    normal: NormalSchema
    spelling: JsonSpelling

    def first_that_compiles(
        self, try_compile: Callable[[str], _T | str], start: Leeway | None = None
    ) -> ChosenGrammar[_T]:
        """Try the grammars, tightest first.

        Args:
            try_compile: returns why a grammar text is refused, or anything but a text.
            start: the leeway of the grammar that came out before.

        Raises:
            ConstraintCompileError: no value can satisfy the schema.
            UnsupportedSchemaError: a regex that no automaton can test.
        """
        candidates = self._candidates(start)
        candidate = next(candidates, None)
        reason = ""
        while candidate is not None:
            schema = {**candidate.schema, "x-guidance": self.spelling.grammar_options}
            schema_text = json.dumps(schema)
            compiled = try_compile(_grammar_text(schema_text))
            if not isinstance(compiled, str):
                return ChosenGrammar(candidate, schema, compiled, self._guard_beside(candidate, schema_text))
            reason = compiled
            if proves_unsatisfiable(reason):
                raise unsatisfiable_error(self.normal, self.source)
            candidate = _next_after(reason, candidates)
        raise InternalError(f"Not even the grammar of any JSON compiles: {reason.strip()}")

    def _candidates(self, start: Leeway | None) -> Generator[GrammarSchema, str | None]:
        key_order = "any" if self.spelling.any_key_order else "schema"
        return grammar_schemas(self.normal, key_order=key_order, ensure_ascii=self.spelling.ascii_only, start=start)

    def _guard_beside(self, candidate: GrammarSchema, schema_text: str) -> JsonGuard | None:
        """Return what judges beside a grammar; what an exact one would have shown when compiled is looked for now."""
        if candidate.is_exact and not self.spelling.ascii_only:
            if self.normal.definitions:
                self._check_satisfiable()  # a grammar of values without end compiles
            if '"pattern' in schema_text:
                check_patterns(patterns_of(self.normal), self.source, schema_text)
            return None
        return self.guard(schema_text)

    def guard(self, grammar_schema_text: str = "") -> JsonGuard:
        """Return what judges beside a grammar that is not exact.

        Args:
            grammar_schema_text: the schema of the grammar; the regexes that stand in it were compiled with it.

        Raises:
            ConstraintCompileError: no value can satisfy the schema.
            UnsupportedSchemaError: a regex that no automaton can test.
        """
        self._check_satisfiable()
        check_patterns(patterns_of(self.normal), self.source, grammar_schema_text)
        return JsonGuard(self.normal, ascii_only=self.spelling.ascii_only)

    def _check_satisfiable(self) -> None:
        if unsatisfiable(self.normal) is not None:
            raise unsatisfiable_error(self.normal, self.source)


def prepare_schema(
    schema: Schema,
    spelling: JsonSpelling,
    *,
    closed: bool,
    asserts_formats: bool,
    resources: Mapping[str, Schema],
) -> PreparedSchema:
    """Read a schema.

    Args:
        schema: of any draft; must not be changed afterwards.
        spelling: the spellings of JSON to allow.
        closed: whether objects that declare `properties` and are silent on extras allow no extras.
        asserts_formats: whether known formats are enforced.
        resources: documents that references may point to, by URI.

    Raises:
        ConstraintCompileError: malformed, or no value can satisfy it.
        UnsupportedSchemaError: a draft that is not served, or a reference to what is not there.
    """
    normal = normalize(schema, resources=resources, formats="assert" if asserts_formats else "annotate")
    if closed:
        normal = close_objects(normal)
    return PreparedSchema(schema, normal, spelling)


def _next_after(reason: str, candidates: Generator[GrammarSchema, str | None]) -> GrammarSchema | None:
    """Return the grammar to try when the last one was refused for `reason`; None when that was the last of all."""
    try:
        return candidates.send(reason)
    except StopIteration:
        return None


def _grammar_text(schema_text: str) -> str:
    from llguidance import LLMatcher

    try:
        return LLMatcher.grammar_from_json_schema(schema_text)
    except ValueError as error:  # a lone surrogate in a key or constant: no UTF-8 text can hold it
        raise ConstraintCompileError(f"The JSON schema cannot be read: {error}.") from error
