import pytest

from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.references import Library, Target, UnresolvedReferenceError


def resolve(schema: Schema, reference: str, documents: dict[str, Schema] | None = None) -> Target:
    library = Library(schema, documents or {})
    return library.resolve(reference, library.root, library.root.dialect)


@pytest.mark.parametrize("reference", ["#", "", "http://x/root", "root", "/root#"])
def test_a_document_is_found_under_its_address(reference: str) -> None:
    schema: Schema = {"$id": "http://x/root"}
    assert resolve(schema, reference).schema is schema


def test_pointers_are_unescaped_and_may_go_through_lists() -> None:
    schema: Schema = {"$defs": {"a/b~%": {"allOf": [True, {"type": "null"}]}}}
    target = resolve(schema, "#/$defs/a~1b~0%25/allOf/1")
    assert target.schema == {"type": "null"}
    assert target.place == "/$defs/a~1b~0%/allOf/1"


def test_an_address_on_the_way_of_a_pointer_is_the_base_of_what_is_behind_it() -> None:
    schema: Schema = {"$id": "http://x/a", "$defs": {"b": {"$id": "b/", "items": {"$id": "c"}}}}
    assert resolve(schema, "#/$defs/b/items").resource.address == "http://x/b/c"
    assert resolve(schema, "b/c").place == "/$defs/b/items"


def test_what_looks_like_an_address_among_values_is_none() -> None:
    schema: Schema = {"const": {"$id": "http://x/a"}, "properties": {"$id": {"enum": ["a"]}}}
    with pytest.raises(UnresolvedReferenceError):
        resolve(schema, "http://x/a")
    assert resolve(schema, "#/properties/$id").resource.address == ""


def test_anchors_belong_to_the_innermost_resource() -> None:
    schema: Schema = {"$defs": {"a": {"$anchor": "x"}, "b": {"$id": "b", "$defs": {"c": {"$anchor": "y"}}}}}
    assert resolve(schema, "#x").place == "/$defs/a"
    assert resolve(schema, "b#y").place == "/$defs/b/$defs/c"
    with pytest.raises(UnresolvedReferenceError, match="anchor"):
        resolve(schema, "#y")


def test_official_metaschemas_are_known_and_documents_show_their_address() -> None:
    assert resolve(True, "http://json-schema.org/draft-04/schema#/definitions/positiveInteger").schema == {
        "minimum": 0,
        "type": "integer",
    }
    target = resolve(True, "http://x/a#/items", {"http://x/a": {"items": {"type": "null"}}})
    assert target.place == "http://x/a#/items"


@pytest.mark.parametrize("reference", ["#/a", "#/$defs/a/b", "#/allOf/1", "#/allOf/x", "#a", "other", "http://[x#"])
def test_what_is_not_there_is_not_resolved(reference: str) -> None:
    with pytest.raises(UnresolvedReferenceError):
        resolve({"allOf": [True], "$defs": {"a": True}}, reference)


def test_documents_are_searched_only_when_asked_for() -> None:
    library = Library({"items": {"$anchor": "a"}}, {})
    library.resolve("#/items", library.root, library.root.dialect)
    assert library.root.anchors == {}
    assert library.dynamic_anchors(library.root) == {}
    assert library.root.anchors.keys() == {"a"}
