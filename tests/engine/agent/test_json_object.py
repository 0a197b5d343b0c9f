import datetime
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field

from sureact.agent.json_object import JsonObject, ObjectField


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Color(enum.Enum):
    RED = "red"


def test_schema_is_closed_and_lists_required_fields():
    schema = JsonObject("T", {"a": ObjectField(int, "the a"), "b": ObjectField(str, default="x")}).schema
    assert schema["properties"] == {
        "a": {"type": "integer", "description": "the a"},
        "b": {"type": "string", "default": "x"},
    }
    assert schema["required"] == ["a"]
    assert schema["additionalProperties"] is False


def test_recursive_models_keep_their_definitions():
    schema = JsonObject("T", {"tree": ObjectField(Node)}).schema
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_values_become_the_python_types():
    converted = JsonObject(
        "T", {"tree": ObjectField(Node), "day": ObjectField(datetime.date), "color": ObjectField(Color)}
    ).convert({"tree": {"value": 1, "children": [{"value": 2}]}, "day": "2024-02-29", "color": "red"})
    assert converted["tree"].children[0].value == 2
    assert converted["day"] == datetime.date(2024, 2, 29)
    assert converted["color"] is Color.RED


def test_a_missing_optional_field_stays_missing():
    assert JsonObject("T", {"a": ObjectField(int, default=3)}).convert({}) == {}


def test_a_missing_field_gets_the_default_that_its_annotation_has():
    with_default: Any = Annotated[int, Field(default=3)]
    with_factory: Any = Annotated[list[int], Field(default_factory=list)]
    described = JsonObject("T", {"a": ObjectField(with_default), "b": ObjectField(with_factory)})
    assert "required" not in described.schema
    assert described.convert({}) == {"a": 3, "b": []}


def test_a_default_is_written_under_an_alias_too():
    described = JsonObject("T", {"a": ObjectField(Annotated[int, Field(3, alias="b")], default=3)})
    assert described.schema["properties"] == {"b": {"type": "integer", "default": 3}}
    assert described.convert({"b": 4}) == {"a": 4}


def test_a_refused_value_names_its_field():
    with pytest.raises(ValueError, match=r"tree\.value: "):
        JsonObject("T", {"tree": ObjectField(Node)}).convert({"tree": {"value": "many"}})


@pytest.mark.parametrize("name", ["json", "copy", "_private", "model_name", "schema"])
def test_any_name_can_be_a_field(name: str):
    assert JsonObject("T", {name: ObjectField(Literal["a"])}).convert({name: "a"}) == {name: "a"}


class BrokenType:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "annotation",
    [Callable[[int], int], object(), Literal[object()], dict[int], BrokenType, NotRequired[int]],  # pyright: ignore
)
def test_a_type_without_json_is_refused_by_field_name(annotation: Any):
    with pytest.raises(TypeError, match="'callback' has type"):
        JsonObject("T", {"callback": ObjectField(annotation)})


def test_a_default_without_json_is_left_out_of_the_schema():
    schema = JsonObject("T", {"a": ObjectField(Any, default=object())}).schema
    assert schema["properties"]["a"] == {}
    assert "a" not in schema.get("required", [])


def test_a_default_that_is_not_finite_is_refused_by_field_name():
    with pytest.raises(TypeError, match="'a' has the default inf"):
        JsonObject("T", {"a": ObjectField(float, default=float("inf"))})
