import datetime
import warnings
from typing import Any

import pytest
from pydantic import AwareDatetime, BaseModel, NaiveDatetime, TypeAdapter

from sureact.agent.object_schema import ObjectSchema
from sureact.constraints.json_schema import json_schema


class Visit(BaseModel):
    first_name: str
    by: Any = object()


def schema_of(python_type: Any) -> dict[str, Any]:
    return TypeAdapter[Any](python_type).json_schema(schema_generator=ObjectSchema)


def test_fields_have_no_titles_and_show_no_default_that_json_cannot_carry():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema_of(Visit)["properties"] == {"first_name": {"type": "string"}, "by": {}}


@pytest.mark.parametrize("python_type", [datetime.datetime, AwareDatetime])
def test_a_moment_has_an_offset(python_type: Any):
    assert schema_of(python_type) == {"type": "string", "format": "date-time"}


def test_a_naive_moment_is_written_without_an_offset():
    naive = schema_of(NaiveDatetime)
    assert not list(json_schema(naive).faults("2024-02-29T12:30:00.5"))
    for text in ("2024-02-29T12:30:00Z", "2024-02-29T12:30:00+01:00", "2023-02-29T12:30:00", "2024-02-29"):
        assert list(json_schema(naive).faults(text))


def test_a_time_has_an_offset():
    assert schema_of(datetime.time) == {"type": "string", "format": "time"}
