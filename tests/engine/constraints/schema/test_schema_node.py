import pytest

from sureact.constraints.schema.normal_form import Normalizer
from sureact.constraints.schema.references import Library
from sureact.constraints.schema.schema_node import SchemaNode
from sureact.errors import ConstraintCompileError


def outermost(place: str = "") -> SchemaNode:
    library = Library({}, {})
    normalizer = Normalizer(library, frozenset())
    context = normalizer.context(library.root, library.root.dialect, frozenset())
    return SchemaNode({}, context, normalizer, place, ())


def test_the_pointer_is_the_place_and_the_steps_from_it() -> None:
    node = outermost("http://x#/a")
    child = SchemaNode({}, node.context, node.normalizer, node, ("properties", "b/c"))
    grandchild = SchemaNode({}, node.context, node.normalizer, child, ("allOf", 0))
    assert grandchild.pointer("$ref") == "http://x#/a/properties/b~1c/allOf/0/$ref"
    assert grandchild.depth == 2


def test_a_schema_is_read_once() -> None:
    schema = {"type": "null", "title": "nothing"}
    node = outermost()
    assert node.child(schema) == {"type": "null"}
    assert node.child(schema) is node.child(schema)


def test_conjuncts_come_beside_those_that_are_there() -> None:
    node = outermost()
    node.conjoin(False)
    node.conjoin(True, {})
    assert node.result == {"allOf": [False, True, {}]}


def test_errors_say_where_and_stay_short() -> None:
    with pytest.raises(ConstraintCompileError, match="at the root: None is not a schema"):
        outermost().child(None)
    with pytest.raises(ConstraintCompileError, match=r"aaa\.\.\.: 1 is not a schema") as caught:
        outermost("/" + "a" * 10_000).child(1)
    assert len(str(caught.value)) < 400
