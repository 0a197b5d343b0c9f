import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from sureact.constraints.schema.keywords import ASSERTED_FORMATS, Schema, map_subschemas
from sureact.constraints.schema.normal_form import NormalSchema, normalize
from sureact.errors import ConstraintCompileError, ConstraintError, UnsupportedSchemaError

SHARED = Path(__file__).parents[5] / "shared" / "data"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"

KEYWORDS = frozenset(
    {"type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "pattern", "format", "prefixItems", "items", "minItems", "maxItems", "uniqueItems"}
    | {"contains", "minContains", "maxContains", "properties", "patternProperties", "additionalProperties"}
    | {"propertyNames", "required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"}
    | {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "$ref"}
)
"""All that a normal form may hold."""


def validator(normal: NormalSchema) -> Draft202012Validator:
    formats = FormatChecker(formats=())
    known = Draft202012Validator.FORMAT_CHECKER.checkers
    formats.checkers = {name: check for name, check in known.items() if name in ASSERTED_FORMATS}
    root = {"$defs": normal.definitions, **normal.root} if isinstance(normal.root, dict) else normal.root
    return Draft202012Validator(root, format_checker=formats)


def keywords_in(normal: NormalSchema) -> set[str]:
    found: set[str] = set()

    def collect(schema: Schema, _: tuple[str, ...] = ()) -> Schema:
        if isinstance(schema, dict):
            found.update(schema)
            map_subschemas(schema, collect)
        return schema

    for schema in (normal.root, *normal.definitions.values()):
        collect(schema)
    return found


CASES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    # draft 4
    ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, [2, "a"], [1]),
    ({"$schema": DRAFT_4, "maximum": 1, "exclusiveMaximum": False}, [1], [2]),
    ({"$schema": DRAFT_4, "const": 1, "if": True, "then": False, "contains": False}, [2, []], []),
    (
        {"$schema": DRAFT_4, "id": "http://x/y", "$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}},
        [None],
        [1],
    ),
    (
        {"$schema": DRAFT_4, "properties": {"a": {"$ref": "#b"}}, "definitions": {"b": {"id": "#b", "type": "null"}}},
        [{"a": None}],
        [{"a": 1}],
    ),
    # tuples, dependencies and siblings of references before 2020-12
    ({"$schema": DRAFT_7, "items": [{"type": "null"}], "additionalItems": False}, [[None], []], [[1], [None, None]]),
    ({"$schema": DRAFT_7, "items": {"type": "null"}, "additionalItems": False}, [[None, None]], [[1]]),
    ({"$schema": DRAFT_7, "additionalItems": False}, [[1]], []),
    ({"$schema": DRAFT_7, "items": [], "additionalItems": {"type": "null"}}, [[None]], [[1]]),
    (
        {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}, "e": False, "f": []}},
        [{"b": 1}, {"a": 1, "b": 1}, {"c": 1, "d": 1}, {"f": 1}],
        [{"a": 1}, {"c": 1}, {"e": 1}],
    ),
    (
        {"$schema": DRAFT_7, "$ref": "#/definitions/a", "minimum": 3, "definitions": {"a": {"type": "integer"}}},
        [1],
        ["a"],
    ),
    ({"$ref": "#/definitions/a", "minimum": 3, "definitions": {"a": {"type": "integer"}}}, [3], [1, "a"]),
    ({"$schema": DRAFT_7, "if": {"type": "string"}, "then": {"minLength": 2}, "else": False}, ["ab"], ["a", 1]),
    ({"$schema": DRAFT_6, "if": {"type": "string"}, "then": {"minLength": 2}, "else": False}, ["ab", "a", 1], []),
    ({"$schema": DRAFT_6, "contains": {"type": "null"}, "minContains": 2}, [[None]], [[]]),
    ({"dependencies": {"a": ["b"]}}, [{"a": 1}], []),
    # 2019-09 and 2020-12
    ({"$schema": DRAFT_2019, "items": [True], "unevaluatedItems": False}, [[1]], [[1, 2]]),
    ({"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}, [[None, None]], [[None], [None] * 4]),
    ({"prefixItems": [{"type": "null"}], "items": False}, [[None]], [[1], [None, None]]),
    ({"if": {"properties": {"a": True}}, "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, [{"a": 1}], []),
    ({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": False}}, [{"b": 1}], [{"a": 1}, {"c": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
    # OpenAPI
    ({"type": "string", "nullable": True}, ["a", None], [1]),
    (
        {"$schema": DRAFT_7, "$ref": "#/definitions/a", "nullable": True, "definitions": {"a": {"type": "string"}}},
        ["a", None],
        [1],
    ),
    # references
    ({"properties": {"a": {"$ref": "#"}}, "maxProperties": 1}, [{"a": {"a": 1}}], [{"a": {"a": 1, "b": 1}}]),
    ({"$ref": "#/$defs/a~1b~0c%25d", "$defs": {"a/b~c%d": {"type": "null"}}}, [None], [1]),
    ({"$ref": "#/x-parts/0/here", "x-parts": [{"here": {"type": "null"}}]}, [None], [1]),
    ({"$ref": "#a", "$defs": {"b": {"$anchor": "a", "type": "null"}}}, [None], [1]),
    (
        {"$id": "http://x/y", "$ref": "/z#/$defs/a", "$defs": {"z": {"$id": "/z", "$defs": {"a": {"type": "null"}}}}},
        [None],
        [1],
    ),
    ({"$id": "urn:x:y", "$ref": "urn:x:y#/$defs/a", "$defs": {"a": {"type": "null"}}}, [None], [1]),
    (
        {
            "$ref": "#/$defs/z/items",
            "$defs": {"a": False, "z": {"$id": "z", "$defs": {"a": {"type": "null"}}, "items": {"$ref": "#/$defs/a"}}},
        },
        [None],
        [1],
    ),
    (
        {
            "$ref": "#/$defs/a",
            "properties": {"b": False},
            "$defs": {"a": {"$ref": "#/$defs/c", "minProperties": 1}, "c": {"type": "object"}},
        },
        [{"a": 1}],
        [{}, 1, {"b": 1}],
    ),
    (
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        [{"minimum": 1}, True],
        [{"minimum": "1"}, 1, {"not": {"type": 1}}],
    ),
    ({"$schema": DRAFT_7, "$ref": DRAFT_7}, [{"minimum": 1}], [{"minimum": "1"}, {"not": {"items": 1}}]),
    # a dynamic reference finds the outermost anchor of its name, once per way that leads to it
    (
        {
            "$id": "http://x/list",
            "properties": {"plain": {"$ref": "tree"}, "strict": {"$ref": "strict"}},
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "properties": {"child": {"$dynamicRef": "#node"}},
                },
                "strict": {"$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False},
            },
        },
        [{"plain": {"child": {"x": 1}}}, {"strict": {"child": {"child": {}}}}],
        [{"strict": {"x": 1}}, {"strict": {"child": {"x": 1}}}, {"strict": {"child": {"child": {"x": 1}}}}],
    ),
    (
        {
            "$schema": DRAFT_2019,
            "$id": "http://x/strict",
            "$recursiveAnchor": True,
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$recursiveAnchor": True,
                    "properties": {"child": {"$recursiveRef": "#"}},
                }
            },
        },
        [{"child": {"child": {}}}],
        [{"x": 1}, {"child": {"x": 1}}],
    ),
    # a part in another draft; the draft around it says how an address is written
    ({"properties": {"a": {"$schema": DRAFT_7, "items": [{"type": "null"}]}}}, [{"a": [None]}], [{"a": [1]}]),
    (
        {
            "$defs": {"a": {"$schema": DRAFT_4, "id": "x/a", "$ref": "#/$defs/b"}, "b": {"type": "null"}},
            "$ref": "#/$defs/a",
        },
        [None],
        [1],
    ),
    # formats
    ({"format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380", 1], ["x"]),
    ({"$schema": DRAFT_4, "format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["x"]),
    ({"format": "json-pointer"}, ["/a"], ["a"]),
    ({"format": "color"}, ["no color"], []),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_the_normal_form_means_the_same(schema: dict[str, Any], valid: list[Any], invalid: list[Any]) -> None:
    normal = normalize(schema)
    assert keywords_in(normal) <= KEYWORDS
    judge = validator(normal)
    assert [value for value in valid if not judge.is_valid(value)] == []
    assert [value for value in invalid if judge.is_valid(value)] == []


def test_annotations_and_what_asks_for_nothing_are_gone() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "T",
        "x-mine": 1,
        "type": ["object"],
        "required": [],
        "minProperties": 0,
        "uniqueItems": False,
        "minContains": 2,
        "then": False,
        "patternProperties": {},
        "dependentRequired": {"a": []},
        "propertyNames": {"type": "string"},
        "allOf": [True, {"description": "nothing"}],
        "format": "color",
        "$defs": {"unused": {"type": "no such type"}},
    }
    assert normalize(schema) == NormalSchema({"type": "object"}, {})


def test_what_matters_to_closing_or_to_unevaluated_is_kept() -> None:
    schema = {"properties": {}, "additionalProperties": {}, "items": True, "unevaluatedItems": True}
    assert normalize(schema).root == schema


def test_properties_keep_their_order_and_repeated_names_count_once() -> None:
    normal = normalize({"properties": {"b": {}, "a": {}}, "required": ["b", "a", "b"]}).root
    assert isinstance(normal, dict)
    assert list(normal["properties"]) == ["b", "a"]
    assert normal["required"] == ["b", "a"]


def test_definitions_are_what_is_referred_to_under_plain_names() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A b"}, "b": {"$ref": "#/$defs/x/$defs/A b"}, "c": {"$ref": "#"}},
        "$defs": {"A b": {"type": "null"}, "x": {"$defs": {"A b": {"type": "string"}}}, "unused": {}},
    }
    normal = normalize(schema)
    assert set(normal.definitions) == {"A_b", "A_b-2", "root"}
    assert normal.definitions["root"] is normal.root


def test_a_target_inside_the_schema_is_the_same_object_in_both_places() -> None:
    normal = normalize({"properties": {"a": {"properties": {}}, "b": {"$ref": "#/properties/a"}}})
    assert isinstance(normal.root, dict)
    assert normal.definitions["a"] is normal.root["properties"]["a"]


def test_formats_can_be_annotations() -> None:
    assert normalize({"format": "date"}, formats="annotate").root == {}


def test_documents_can_be_given_under_their_address_or_the_one_they_declare() -> None:
    documents: dict[str, Schema] = {
        "http://x/a.json": {"$schema": DRAFT_7, "$id": "http://y/b.json", "items": [{"$ref": "#/definitions/c"}]},
        "http://x/d.json#": {"$anchor": "e", "type": "null"},
    }
    documents["http://x/a.json"]["definitions"] = {"c": {"type": "null"}}  # type: ignore[index]
    for reference in ("http://x/a.json", "http://y/b.json"):
        judge = validator(normalize({"$ref": reference}, resources=documents))
        assert judge.is_valid([None])
        assert not judge.is_valid([1])
    assert not validator(normalize({"$ref": "http://x/d.json#e"}, resources=documents)).is_valid(1)


def test_a_metaschema_of_ones_own_can_leave_validation_out() -> None:
    vocabulary = "https://json-schema.org/draft/2020-12/vocab"
    metaschema: Schema = {"$vocabulary": {f"{vocabulary}/core": True, f"{vocabulary}/applicator": True}}
    schema = {"$schema": "http://x/mine", "properties": {"a": {"minimum": 1}, "b": False}}
    assert normalize(schema, resources={"http://x/mine": metaschema}).root == {"properties": {"a": {}, "b": False}}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#/$defs/none"}, "/$ref"),
        ({"properties": {"a/b": {"$ref": "#none"}}}, "/properties/a~1b/$ref"),
        ({"items": {"$ref": "http://x/y"}}, "/items/$ref"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "other.json#/b"}}}}, "/$defs/a/not/$ref"),
        ({"$ref": "#a", "$defs": {"b": {"$anchor": "a", "items": {"$ref": "#c"}}}}, "/$defs/b/items/$ref"),
        ({"items": {"$dynamicRef": "#none"}}, "/items/$dynamicRef"),
    ],
)
def test_a_reference_to_nothing_is_refused_where_it_stands(schema: Schema, pointer: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"points|names") as caught:
        normalize(schema)
    assert caught.value.pointer == pointer
    assert caught.value.keyword == pointer.rpartition("/")[2]


def test_a_reference_that_leaves_the_schema_says_what_to_do() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"Copy that into '\$defs', or give it in `resources`"):
        normalize({"$ref": "http://x/y"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"not": {"$ref": "#"}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"anyOf": [{"if": {"$ref": "#/$defs/b"}}]}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_references_that_never_terminate_are_refused(schema: Schema) -> None:
    with pytest.raises(ConstraintCompileError, match="never terminates"):
        normalize(schema)


def nested(depth: int, schema: Schema = True) -> Schema:
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def test_two_hundred_levels_are_read_and_ten_thousand_refused() -> None:
    assert normalize(nested(200)).root == nested(200)
    with pytest.raises(ConstraintCompileError, match="nested more than"):
        normalize(nested(10_000))
    with pytest.raises(UnsupportedSchemaError, match="does not exist"):
        normalize({"$ref": "#a", "not": nested(100_000)})


def test_long_chains_of_references_are_followed() -> None:
    chain = {f"d{number}": {"items": {"$ref": f"#/$defs/d{number + 1}"}} for number in range(5000)}
    normal = normalize({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {"type": "null"}}})
    assert len(normal.definitions) == 5001


def test_an_object_shared_many_times_is_read_once() -> None:
    shared: Schema = {"type": "null"}
    for _ in range(60):
        shared = {"anyOf": [shared, shared]}
    normalize(shared)


KEYS = st.sampled_from(sorted(KEYWORDS)) | st.text()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(KEYWORDS)) | st.text(), values, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_json_is_given_is_read_or_refused(value: Any) -> None:
    try:
        normal = normalize(value)
    except ConstraintError:
        return
    assert keywords_in(normal) <= KEYWORDS


def documents_in(archive: Path, part: str, step: int = 1) -> Iterator[tuple[str, Any]]:
    with tarfile.open(archive) as members:
        files = [member for member in members if member.name.endswith(".json") and part in member.name]
        for member in files[::step]:
            content = members.extractfile(member)
            assert content is not None
            yield member.name, json.load(content)


SUITE = SHARED / "json_schema_test_suite.tar.xz"
UNLIKE_PYTHON = "Unicode property escape"
"""What is in the description of cases whose `pattern` Python's `re` cannot read."""


@pytest.mark.skipif(not SUITE.exists(), reason="the JSON-Schema-Test-Suite is not on this machine")
@pytest.mark.parametrize(("draft", "address"), [("draft2020-12", None), ("draft7", DRAFT_7)])
def test_the_normal_form_passes_the_test_suite(draft: str, address: str | None) -> None:
    remotes = {
        "http://localhost:1234/" + name.partition("remotes/")[2]: document
        for name, document in documents_in(SUITE, "remotes/")
    }
    groups = [
        group
        for name, document in documents_in(SUITE, f"tests/{draft}/")
        if "/optional/" not in name
        for group in document
        if UNLIKE_PYTHON not in group["description"] and group["description"] != "empty enum"
    ]
    wrong: list[str] = []
    for group in groups:
        schema = group["schema"]
        if address is not None and isinstance(schema, dict):
            schema = {"$schema": address, **schema}
        judge = validator(normalize(schema, resources=remotes, formats="annotate"))
        wrong += [group["description"] for test in group["tests"] if judge.is_valid(test["data"]) != test["valid"]]
    assert len(groups) > 200
    assert wrong == []
