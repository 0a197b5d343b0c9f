"""JSON text that is valid under a JSON schema."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args

from sureact.constraints.compiler import compile_once, try_compile
from sureact.constraints.constraint import Constraint
from sureact.constraints.deep_stack import call_with_room
from sureact.constraints.grammar_store import MIN_SECONDS, load_leeway, save_leeway
from sureact.constraints.guards.guarded_state import GuardedConstraint
from sureact.constraints.prepared_schema import JsonSpelling, PreparedSchema, prepare_schema
from sureact.constraints.schema.judge import (
    UnexcludedJsonError,
    first_fault,
    is_draft_known,
    json_validator,
    parse_json,
)
from sureact.constraints.schema.schema_text import resources_text, schema_text
from sureact.errors import ConfigError, ConstraintError, InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from sureact.constraints.constraint import CompiledConstraint
    from sureact.constraints.llguidance_state import CompiledGrammar
    from sureact.constraints.prepared_schema import ChosenGrammar
    from sureact.constraints.schema.keywords import Schema
    from sureact.tokens.vocabulary import Vocabulary

MaskEngine: TypeAlias = Literal["llguidance", "xgrammar", "outlines_core"]

_T = TypeVar("_T")

_ITEM_SEPARATOR = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_KEY_SEPARATOR = re.compile(r"[ \t\r\n]*:[ \t\r\n]*")


def json_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    separators: tuple[str, str] = (", ", ": "),
    whitespace: Literal["any"] | None = None,
    additional_properties: Literal["schema", "closed"] = "schema",
    key_order: Literal["schema", "any"] = "schema",
    ensure_ascii: bool = False,
    format: Literal["assert", "annotate"] = "assert",  # noqa: A002  the keyword's own name
    resources: Mapping[str, Any] | None = None,
    engine: MaskEngine = "llguidance",
) -> JsonSchemaConstraint:
    """Constrain a text to be JSON that is valid under `schema`, of any draft from 4 to 2020-12.

    The schema is checked when the constraint is compiled. What a grammar cannot hold is judged beside it, token by
    token, so that every keyword is enforced.

    Args:
        schema: the schema, or its JSON text; its draft is that of `$schema`, else 2020-12.
        separators: texts between members and between key and value, as in `json.dumps`.
        whitespace: None for none but the separators; `"any"` for any amount between the parts of arrays and objects,
            and then `separators` is not used. Greedy decoding can loop on free whitespace.
        additional_properties: `"schema"` takes the schema as it is; `"closed"` forbids other keys in every object that
            declares `properties` and does not say.
        key_order: `"schema"`: keys come in the order in which the schema declares them, then those that its conditions
            declare, then others that it requires, then any other; `"any"`: in any order.
        ensure_ascii: True writes characters outside ASCII as escapes only; False leaves both spellings. Declared keys,
            constants and what a `pattern` asks for have but one of them.
        format: `"assert"`: formats that the draft knows are enforced, unknown ones are annotations; `"annotate"`: all
            are annotations.
        resources: schemas that references may point to, by URI. Those of the drafts themselves are known.
        engine: what makes the masks. `"xgrammar"` (an extra) and `"outlines_core"` enforce less; a schema with more
            is refused by name.

    Raises:
        ConfigError: an option is not one of these, or `schema` is neither a schema nor its text, or too large.
    """
    _require_one_of("whitespace", whitespace, None, "any")
    _require_one_of("additional_properties", additional_properties, "schema", "closed")
    _require_one_of("key_order", key_order, "schema", "any")
    _require(isinstance(ensure_ascii, bool), "ensure_ascii", ensure_ascii, "True or False")  # pyright: ignore[reportUnnecessaryIsInstance]
    _require_one_of("format", format, "assert", "annotate")
    _require_one_of("engine", engine, *get_args(MaskEngine))
    item_separator, key_separator = _checked_separators(separators)
    return JsonSchemaConstraint(
        schema_text(schema),
        JsonSpelling(
            item_separator=item_separator,
            key_separator=key_separator,
            free_whitespace=whitespace == "any",
            any_key_order=key_order == "any",
            ascii_only=ensure_ascii,
        ),
        closed=additional_properties == "closed",
        asserts_formats=format == "assert",
        resources_text=resources_text(resources),
        engine=engine,
    )


@dataclass(frozen=True, slots=True)
class JsonSchemaConstraint(Constraint):
    """JSON valid under a schema, in the spellings that the options leave."""

    schema_text: str
    """The schema as JSON text, its keys in the user's order."""
    spelling: JsonSpelling
    closed: bool
    asserts_formats: bool
    resources_text: str
    """The documents that references may point to, by URI, as JSON text."""
    engine: MaskEngine = "llguidance"

    @property
    def cache_key(self) -> str:
        """The schema and the options."""
        options = [self.spelling.cache_key, self.closed, self.asserts_formats, self.resources_text, self.engine]
        return f"json_schema:{json.dumps(options)}{self.schema_text}"

    @property
    def schema(self) -> Schema:
        """A copy of the schema as it was given."""
        return json.loads(self.schema_text)

    def prepare(self) -> PreparedSchema:
        """Return the schema as the grammar and the guard take it.

        Raises:
            ConstraintCompileError: malformed, or no value can satisfy it.
            UnsupportedSchemaError: a draft that is not served, or a reference to what is not there.
        """
        return call_with_room(
            lambda: prepare_schema(
                self.schema,
                self.spelling,
                closed=self.closed,
                asserts_formats=self.asserts_formats,
                resources=json.loads(self.resources_text),
            )
        )

    def check(self) -> None:
        """Raise now what `compile` would raise, without a model's vocabulary.

        Raises:
            ConstraintCompileError: malformed, or no value can satisfy it.
            UnsupportedSchemaError: a keyword cannot be enforced.
        """
        self.grammar_for_any_vocabulary()

    def grammar_for_any_vocabulary(self) -> ChosenGrammar[bool]:
        """Return the tightest grammar that compiles, or what an earlier call found.

        Raises:
            ConstraintCompileError, UnsupportedSchemaError: see `check`.
        """
        return _grammar_on_bytes(self)

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary, or return what an earlier call bound."""

        def bind() -> CompiledConstraint:
            if self.engine != "llguidance":
                return self._compile_elsewhere(vocabulary)
            return _bound(self.choose_grammar(_compiler_for(vocabulary)), vocabulary)

        return compile_once(self.cache_key, vocabulary, bind)

    def _compile_elsewhere(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary on another engine; the guard judges beside it as it does beside llguidance."""
        from sureact.constraints.engines.outlines_core import compile_with_outlines_core
        from sureact.constraints.engines.xgrammar import compile_with_xgrammar

        prepared = self.prepare()
        compile_schema = compile_with_xgrammar if self.engine == "xgrammar" else compile_with_outlines_core
        compiled = compile_schema(prepared.normal.document, vocabulary, self.spelling)
        return GuardedConstraint(compiled, prepared.guard(), vocabulary)

    def compile_uncached(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary as if nothing had been compiled before, in this process or another."""
        prepared, try_compile = self.prepare(), _compiler_for(vocabulary)
        return _bound(call_with_room(lambda: prepared.first_that_compiles(try_compile)), vocabulary)

    def choose_grammar(self, try_compile: Callable[[str], _T | str]) -> ChosenGrammar[_T]:
        """Return the tightest grammar that compiles; on disk is kept which one, if it took long to find.

        Args:
            try_compile: returns why a grammar text is refused, or anything but a text.

        Raises:
            ConstraintCompileError: malformed, or no value can satisfy it.
            UnsupportedSchemaError: a keyword cannot be enforced.
        """
        began = time.perf_counter()
        prepared, kept = self.prepare(), load_leeway(self.cache_key)
        chosen = call_with_room(lambda: prepared.first_that_compiles(try_compile, kept))
        leeway = chosen.grammar.leeway
        if leeway not in (None, kept) and time.perf_counter() - began > MIN_SECONDS:
            save_leeway(self.cache_key, leeway)
        return chosen

    def parse(self, text: str) -> Any:
        """Return the JSON value of `text`, judged against the schema.

        Raises:
            ConstraintError: a text that is JSON and stands for no value: a key twice in one object, a number that is
                not finite, or more digits or levels than Python reads.
            InternalError: not strict JSON, or not valid.
        """
        try:
            value = parse_json(text)
            # The first error, not best_match: it is enough to condemn, and there should be none.
            fault = next(filter(None, (first_fault(judge, value) for judge in self._own_judges())), None)
        except (UnexcludedJsonError, RecursionError) as error:
            raise ConstraintError(f"The finished text {text!r} is no value: {error}.") from error
        except ValueError as error:
            raise InternalError(f"The finished text {text!r} is not strict JSON: {error}.") from error
        if fault is not None:
            raise InternalError(f"The finished text {text!r} violates its schema: {fault.message}.")
        return value

    def faults(self, value: object) -> Iterator[ValidationError]:
        """Yield what is wrong with a parsed value; nothing that comes out of generation has a fault."""
        for judge in self._own_judges():
            found = False
            for fault in judge.iter_errors(cast("Any", value)):
                found = True
                yield fault
            if found:
                return

    def _own_judges(self) -> tuple[Validator, ...]:
        return call_with_room(lambda: _judges(self))


def _compiler_for(vocabulary: Vocabulary) -> Callable[[str], CompiledGrammar | str]:
    return lambda grammar: try_compile(grammar, vocabulary, spells_json=True)


def _bound(chosen: ChosenGrammar[CompiledGrammar], vocabulary: Vocabulary) -> CompiledConstraint:
    return chosen.compiled if chosen.guard is None else GuardedConstraint(chosen.compiled, chosen.guard, vocabulary)


@lru_cache(maxsize=256)
def _grammar_on_bytes(constraint: JsonSchemaConstraint) -> ChosenGrammar[bool]:
    from sureact.constraints.byte_matcher import grammar_error

    return constraint.choose_grammar(lambda grammar: grammar_error(grammar) or True)


@lru_cache(maxsize=256)
def _judges(constraint: JsonSchemaConstraint) -> tuple[Validator, ...]:
    """Return what judges a finished value: the schema as it was given and, where objects are closed, its closed form.

    The schema as given, and not its normal form: the judge must not share the faults of what it judges. Only what a
    schema of a dialect of its own means is known to the normal form alone.
    """
    schema, resources = constraint.schema, json.loads(constraint.resources_text)
    is_own_dialect = not is_draft_known(schema)
    judges: list[Validator] = []
    if not is_own_dialect:
        judges.append(json_validator(schema, check_formats=constraint.asserts_formats, resources=resources))
    if is_own_dialect or constraint.closed:
        normal = constraint.prepare().normal
        judges.append(json_validator(normal.document, check_formats=constraint.asserts_formats))
    return tuple(judges)


def _checked_separators(separators: object) -> tuple[str, str]:
    match separators:
        case (str(item), str(key)) if _ITEM_SEPARATOR.fullmatch(item) and _KEY_SEPARATOR.fullmatch(key):
            return item, key
        case _:
            allowed = "a comma and a colon, each alone or with JSON whitespace around it"
            raise ConfigError(f"separators is {separators!r}; json_schema takes {allowed}.")


def _require_one_of(name: str, value: object, *allowed: object) -> None:
    _require(value in allowed, name, value, " or ".join(map(repr, allowed)))


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value!r}; json_schema takes {allowed}.")
