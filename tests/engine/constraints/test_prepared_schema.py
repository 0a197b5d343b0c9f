import pytest

from sureact.constraints.prepared_schema import JsonSpelling, PreparedSchema, prepare_schema
from sureact.constraints.schema.keywords import Schema
from sureact.errors import ConstraintCompileError, InternalError, UnsupportedSchemaError


def prepared(schema: Schema, *, ascii_only: bool = False) -> PreparedSchema:
    return prepare_schema(schema, JsonSpelling(ascii_only=ascii_only), closed=False, asserts_formats=True, resources={})


CLOSED = {"properties": {"a": {"type": "string"}}, "additionalProperties": False, "type": "object"}


@pytest.mark.parametrize(
    ("schema", "is_guarded"),
    [
        (CLOSED, False),
        ({"type": "integer"}, False),
        ({"enum": ["a", 1]}, False),
        ({**CLOSED, "additionalProperties": True}, True),
        ({"type": "number"}, True),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, True),
        ({"type": "string", "not": {"const": "a"}}, True),
        ({}, True),
    ],
)
def test_a_guard_stands_beside_a_grammar_that_is_not_exact(schema: Schema, is_guarded: bool) -> None:
    chosen = prepared(schema).first_that_compiles(lambda _: True)
    assert (chosen.guard is not None) is is_guarded


def test_what_is_written_in_ascii_is_always_guarded() -> None:
    assert prepared(CLOSED, ascii_only=True).first_that_compiles(lambda _: True).guard is not None


def test_a_looser_grammar_is_tried_after_one_that_is_refused() -> None:
    tried: list[str] = []

    def accept_the_second(grammar: str) -> str | bool:
        tried.append(grammar)
        return "too large" if len(tried) == 1 else True

    chosen = prepared({"type": "object", "minProperties": 1, "properties": {"a": {}}}).first_that_compiles(
        accept_the_second
    )
    assert len(tried) == 2
    assert chosen.compiled is True


def test_a_looser_grammar_does_not_hide_that_nothing_is_valid() -> None:
    with pytest.raises(ConstraintCompileError, match=r"No JSON value can satisfy the schema: .* at the root"):
        prepared({"enum": [3], "minimum": 5}).first_that_compiles(
            lambda _: "Unsatisfiable schema: minimum over maximum"
        )


def test_that_nothing_compiles_is_a_fault_of_our_own() -> None:
    with pytest.raises(InternalError, match="broken"):
        prepared({}).first_that_compiles(lambda _: "broken")


def test_a_regex_that_only_the_guard_would_see_is_tried_when_compiling() -> None:
    with pytest.raises(UnsupportedSchemaError):
        prepared({"not": {"pattern": r"(a)\1"}}).first_that_compiles(lambda _: True)


def test_spellings_share_a_key_only_when_equal() -> None:
    keys = {
        JsonSpelling(any_key_order=order, ascii_only=ascii_only, free_whitespace=free).cache_key
        for order in (True, False)
        for ascii_only in (True, False)
        for free in (True, False)
    }
    assert len(keys) == 8


def test_values_that_never_end_are_refused_though_their_grammar_compiles() -> None:
    node = {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1}
    with pytest.raises(ConstraintCompileError, match="without end"):
        prepared({"$ref": "#/$defs/node", "$defs": {"node": node}}).first_that_compiles(lambda _: True)


def test_the_reason_of_a_refusal_says_which_grammar_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """What took long to be refused is not compiled again to learn why."""
    monkeypatch.delattr("sureact.constraints.schema.leeway.compile_error")
    many = {
        "type": "object",
        "minProperties": 1,
        "properties": {"a": {"type": "string"}},
        "additionalProperties": False,
    }
    reasons = iter(["schema too large"])
    chosen = prepared(many).first_that_compiles(lambda _: next(reasons, True))
    assert chosen.guard is not None
