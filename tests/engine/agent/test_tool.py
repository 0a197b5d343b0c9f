import datetime
import functools
import inspect
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, NaiveDatetime
from typing_extensions import TypedDict

from sureact.agent.tool import Tool, tools_by_name
from sureact.errors import ConfigError, ToolDefinitionError, ToolExecutionError


class Unit(Enum):
    METER = "m"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int


class Options(TypedDict):
    strict: bool


class Counter:
    """Counts."""

    def __call__(self, by: int) -> int:
        return by + 1


def search(query: str, k: int = 5, order: Literal["asc", "desc"] = "asc") -> list[str]:
    """Search the archive.

    Args:
        query: words to look for
        k: how many
    """
    return [query] * k + [order]


def measure(point: Point, size: Size, unit: Unit, options: Options, label: str | None = None) -> str:
    return f"{point.x} {size.width} {unit.name} {options['strict']} {label}"


def test_name_description_and_schema_come_from_the_function():
    tool = Tool(search)
    assert (tool.name, tool.desc) == ("search", "Search the archive.")
    assert tool.args == {
        "query": {"type": "string", "description": "words to look for"},
        "k": {"type": "integer", "description": "how many", "default": 5},
        "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
    }
    assert tool.parameters["required"] == ["query"]
    assert tool.parameters["additionalProperties"] is False


def test_what_is_given_wins_over_the_function():
    tool = Tool(search, "find", "Find.", {"query": {"type": "string"}, "k": {"type": "integer", "default": 1}})
    assert (tool.name, tool.desc) == ("find", "Find.")
    assert tool.parameters["required"] == ["query"]
    assert tool(query="a", k=1) == ["a", "asc"]


def test_a_whole_schema_can_be_given():
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    assert Tool(search, args=schema).parameters == schema


def test_arguments_are_converted_to_the_functions_types():
    tool = Tool(measure)
    result = tool(point={"x": 1}, size={"width": 2}, unit="m", options={"strict": True})
    assert result == "1 2 METER True None"


def test_defaults_are_the_functions_own():
    assert Tool(search)(query="a") == ["a"] * 5 + ["asc"]


def test_callable_objects_and_partials_are_tools():
    assert Tool(Counter()).name == "Counter"
    assert Tool(Counter())(by=1) == 2
    assert Tool(functools.partial(search, k=1), name="one")(query="a") == ["a", "asc"]
    assert Tool("abc".startswith, name="starts", args={}).parameters["properties"] == {}


@pytest.mark.parametrize("args", [{}, {"query": 1}, {"query": "a", "k": "x"}, {"query": "a", "more": 1}])
def test_arguments_that_violate_the_schema_are_refused(args: dict[str, Any]):
    with pytest.raises(ToolExecutionError, match="search refuses"):
        Tool(search)(**args)


def test_a_validator_of_the_users_type_refuses_too():
    class Even(BaseModel):
        value: int = Field(json_schema_extra={})

        def model_post_init(self, context: object) -> None:
            if self.value % 2:
                raise ValueError("odd")

    def take(even: Even) -> int:
        return even.value

    take.__annotations__["even"] = Even
    assert Tool(take)(even={"value": 2}) == 2
    with pytest.raises(ToolExecutionError, match="odd"):
        Tool(take)(even={"value": 1})


def test_a_parameter_without_annotation_takes_any_json_and_warns():
    def free(x):  # pyright: ignore
        return x  # pyright: ignore

    with pytest.warns(UserWarning, match="'x' has no annotation"):
        tool = Tool(free)  # pyright: ignore[reportUnknownArgumentType]
    assert tool.args == {"x": {}}
    assert tool(x=[1, {"a": None}]) == [1, {"a": None}]


def takes_many(*numbers: int) -> None: ...
def takes_any(**numbers: int) -> None: ...
def takes_position(number: int, /) -> None: ...


@pytest.mark.parametrize("func", [takes_many, takes_any, takes_position, lambda: 1, 5])
def test_what_cannot_be_described_is_refused(func: Any):
    with pytest.raises(ToolDefinitionError):
        Tool(func)


@pytest.mark.parametrize("name", ["", "two words", "9lives", "a" * 65, "naïve", 'a"b', "a\nb"])
def test_names_that_a_prompt_cannot_carry_are_refused(name: str):
    with pytest.raises(ToolDefinitionError, match="cannot name a tool"):
        Tool(search, name=name)


def test_duplicate_names_and_finish_are_refused():
    with pytest.raises(ToolDefinitionError, match="Two tools"):
        tools_by_name([search, Tool(search)])
    with pytest.raises(ToolDefinitionError, match="'finish'"):
        tools_by_name([Tool(search, name="finish")])


def test_functions_become_tools_in_order():
    assert list(tools_by_name([search, measure])) == ["search", "measure"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "pattern": r"^\p{L}+$"}, "é"),
        ({"type": "string", "pattern": "(a+)+$"}, "a" * 40),
    ],
)
def test_what_decoding_allows_is_not_refused_afterwards(schema: dict[str, Any], value: object):
    assert Tool(lambda x: x, name="same", args={"x": schema})(x=value) == value  # pyright: ignore


def test_a_pattern_that_backtracks_is_judged_at_once():
    tool = Tool(lambda x: x, name="same", args={"x": {"type": "string", "pattern": "^(a+)+$"}})  # pyright: ignore
    with pytest.raises(ToolExecutionError):
        tool(x="a" * 40 + "b")


def test_the_draft_of_a_schema_is_heeded():
    # `exclusiveMinimum` was a boolean in draft 4.
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"x": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}},
    }
    tool = Tool(lambda x: x, name="same", args=schema)  # pyright: ignore
    assert tool(x=2) == 2
    with pytest.raises(ToolExecutionError):
        tool(x=1)


def test_a_given_object_is_closed_as_it_is_for_decoding():
    tool = Tool(lambda x: x, name="same", args={"type": "object", "properties": {"x": {}}})  # pyright: ignore
    with pytest.raises(ToolExecutionError, match="'y'"):
        tool(x=1, y=2)


def unclosed(x: "list[") -> None: ...  # pyright: ignore # noqa: F722
def no_member(x: "int.foo") -> None: ...  # pyright: ignore
def divides(x: "1 / 0") -> None: ...  # pyright: ignore
def opaque(x: Literal[object()]) -> None: ...  # pyright: ignore
def one_argument(x: dict[int]) -> None: ...  # pyright: ignore
def endless(x: float = float("inf")) -> None: ...
def nested_nan(x: list[float] = [float("nan")]) -> None: ...  # noqa: B006


@pytest.mark.parametrize(
    "func",
    [max, int, unclosed, no_member, divides, opaque, one_argument, endless, nested_nan],
    ids=lambda func: func.__name__,
)
def test_what_cannot_be_read_is_refused_by_the_tools_name(func: Any):
    with pytest.raises(ToolDefinitionError, match=f"Tool '{func.__name__}'"):
        Tool(func)


@pytest.mark.parametrize("args", [5, "x", {"query": 5}, {"query": "string"}])
def test_given_schemas_that_are_none_are_refused(args: Any):
    with pytest.raises(ToolDefinitionError, match="Tool 'search'"):
        Tool(search, args=args)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(ToolDefinitionError, match="cannot name a tool"):
        Tool(search, name=5)  # pyright: ignore[reportArgumentType]


def test_a_tool_shows_what_its_function_shows():
    tool = Tool(search, name="find", desc="Finds.")
    assert (tool.__name__, tool.__doc__) == ("find", "Finds.")
    assert inspect.signature(tool) == inspect.signature(search)


def test_a_tool_tells_whether_it_runs_in_a_process_of_its_own():
    assert [Tool(divides_whole, isolate=isolate).is_isolated for isolate in (False, True)] == [False, True]


def divides_whole(dividend: int, divisor: int) -> int:
    return dividend // divisor


def test_a_time_limit_is_given_to_a_copy_that_has_none():
    own, other = Tool(search, timeout_s=3), Tool(search)
    assert own.with_timeout(9) is own
    limited = other.with_timeout(9)
    assert (limited.policy.timeout_s, other.policy.timeout_s) == (9, None)
    assert (limited.name, limited.parameters) == (other.name, other.parameters)
    assert limited(query="x") == search("x")
    with pytest.raises(ConfigError, match="timeout_s"):
        other.with_timeout(0)


ITEMS = {"type": "object", "properties": {"basket": {"type": "object"}}, "required": ["basket"]}


def take_any(basket: Any) -> list[str]:
    basket["items"].append("gift")
    return basket["items"]


def take_dictionary(basket: dict[str, Any]) -> list[str]:
    return take_any(basket)


def take_bare_dictionary(basket: dict) -> list[str]:  # pyright: ignore
    return take_any(basket)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize(
    "tool",
    [Tool(take_any), Tool(take_dictionary), Tool(take_bare_dictionary), Tool(take_any, args=ITEMS)],  # pyright: ignore
    ids=["any", "dictionary", "bare dictionary", "given schema"],
)
def test_a_function_that_changes_its_arguments_changes_no_one_elses(tool: Tool):
    args = {"basket": {"items": ["tea"]}}
    assert [tool.run(args), tool.run(args)] == [["tea", "gift"]] * 2
    assert args == {"basket": {"items": ["tea"]}}


@pytest.mark.parametrize("options", [{}, {"args": {"lines": {}}}, {"timeout_s": 5}])
def test_each_attempt_has_the_arguments_as_they_were(options: dict[str, Any]):
    seen: list[list[str]] = []

    def flaky(lines: Any) -> str:
        seen.append(list(lines))
        lines.clear()
        if len(seen) < 3:
            raise ConnectionError
        return "ok"

    assert Tool(flaky, retries=2, backoff_s=0, **options)(lines=["a", "b"]) == "ok"
    assert seen == [["a", "b"]] * 3


def test_what_is_no_json_reaches_the_function_itself():
    lock = threading.Lock()  # of which there is no copy
    assert Tool(lambda x: x, name="same", args={"x": {}})(x=lock) is lock  # pyright: ignore


def test_arguments_nested_deeply_are_passed():
    nested: list[Any] = []
    for _ in range(500):
        nested = [nested]
    assert Tool(lambda x: x, name="same", args={"x": {}})(x=nested) == nested  # pyright: ignore


def test_a_local_time_is_taken_where_the_type_asks_for_one():
    def is_early(at: NaiveDatetime) -> bool:
        return at < datetime.datetime(2030, 1, 1)

    is_early.__annotations__["at"] = NaiveDatetime
    assert Tool(is_early)(at="2024-02-29T12:30:00") is True
    with pytest.raises(ToolExecutionError):
        Tool(is_early)(at="2024-02-29T12:30:00Z")


def test_a_time_of_the_model_has_a_zone():
    def is_past(at: datetime.datetime) -> bool:
        return at < datetime.datetime.now(datetime.UTC)

    assert Tool(is_past)(at="2024-02-29T12:30:00+01:00") is True
    with pytest.raises(ToolExecutionError):
        Tool(is_past)(at="2024-02-29T12:30:00")


def forecast(city: str, unit: str = "C", days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: where
        unit: C or F
        days: how many
    """
    return f"{city} {unit} {days}"


def test_a_partial_is_described_by_what_it_wraps_without_what_it_binds():
    tool = Tool(functools.partial(functools.partial(forecast, unit="F"), "Porto"))
    assert (tool.name, tool.desc) == ("forecast", "Tell the weather.")
    assert tool.args == {"days": {"type": "integer", "description": "how many", "default": 1}}
    assert tool(days=3) == "Porto F 3"
    with pytest.raises(ToolExecutionError, match="'unit'"):
        tool(unit="C")


class Lookup:
    """A table that is read once."""

    def __init__(self, a: str = "") -> None:
        self.a = a

    def __call__(self, a: int) -> int:
        """Look up a thing.

        Args:
            a: the thing.
        """
        return a


@pytest.mark.parametrize("given", [Lookup(), Lookup, functools.partial(Lookup())], ids=["object", "class", "partial"])
def test_an_object_is_described_by_what_calls_it(given: Any):
    tool = Tool(given)
    assert (tool.name, tool.desc) == ("Lookup", "Look up a thing.")
    assert tool.args == {"a": {"type": "integer", "description": "the thing."}}
    assert tool(a=2) == 2
