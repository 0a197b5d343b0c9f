import datetime
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from sureact.agent.recorded_signature import recorded_signature, signature_record, type_text
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.errors import SignatureError, TraceError


class Place(BaseModel):
    name: str


TYPES = st.recursive(
    st.sampled_from(
        [
            *("str", "int", "float", "bool", "list", "dict", "Any", "date", "datetime", "time", "None"),
            *("Literal['a', True, None, -3]", 'Literal["it\'s"]', "tuple[()]"),
        ]
    ),
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("dict[str, {}]".format),
        inner.map("tuple[{}, ...]".format),
        st.tuples(inner, inner).map(lambda two: f"tuple[{two[0]}, {two[1]}]"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]} | {two[1]}"),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_what_a_text_can_name_comes_back_as_the_same_type(text: str) -> None:
    annotation = Signature(f"-> x: {text}").outputs["x"].annotation
    written = type_text(annotation)
    assert written is not None
    again = Signature(f"-> x: {written}").outputs["x"].annotation
    assert type_text(again) == written
    assert TypeAdapter(again).json_schema() == TypeAdapter(annotation).json_schema()


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Optional[datetime.date], "date | None"),  # noqa: UP045
        (Literal["a -> b"], None),
        (Annotated[int, Field(ge=1)], None),
        (Place, None),
        (list[Place], None),
        (Any, "Any"),
    ],
)
def test_what_no_text_can_name_has_none(annotation: Any, text: str | None) -> None:
    assert type_text(annotation) == text


def test_a_signature_comes_back_as_it_was_written() -> None:
    class Ask(Signature):
        """Answer briefly."""

        q: str = InputField(desc="the question")
        day: datetime.date = OutputField()
        names: dict[int, str] = OutputField(desc="by number")

    signature = Signature.of(Ask)
    record = signature_record(signature)
    assert record["input_types"] == {"q": "str"}
    assert record["output_types"] == {"day": "str (date)", "names": "dict[str, str]"}
    again = recorded_signature(record)
    assert again.fields == signature.fields
    assert again.instructions == signature.instructions
    assert signature_record(Signature("-> a"))["input_types"] == {}


def test_a_type_that_no_text_names_is_refused_with_its_field() -> None:
    class Where(Signature):
        q: str = InputField()
        place: Place = OutputField()

    with pytest.raises(TraceError, match=r"the field 'place', which the model read as \{name: str\}"):
        recorded_signature(signature_record(Signature.of(Where)))


def test_a_trace_of_before_tells_types_as_the_model_read_them() -> None:
    record = signature_record(Signature("q -> a: Literal['x', 'y'], n: list[int] | None"))
    old = {name: record[name] for name in ("instructions", "input_types", "output_types")}
    assert recorded_signature(old).fields == recorded_signature(record).fields
    with pytest.raises(SignatureError, match="is unknown"):
        recorded_signature({**old, "output_types": {"day": "str (date)"}})
