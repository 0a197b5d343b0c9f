from typing import Any

import pytest

from sureact.agent.formats.registry import FORMATS
from sureact.server.agent_fields import AGENT_FIELDS
from sureact.server.api_error import ApiError
from sureact.server.openapi import field_schema
from sureact.server.request_fields import read_fields

FIELDS = {field.name: field for field in AGENT_FIELDS}


def test_the_defaults_are_those_of_agents_in_programs() -> None:
    values = read_fields({"question": "?"}, AGENT_FIELDS)
    assert (values["signature"], values["max_iters"], values["on_repeat"]) == ("question -> answer", 20, "mask")
    assert (values["max_thought_tokens"], values["max_call_tokens"], values["max_output_tokens"]) == (200, 512, 1024)
    assert (values["tools"], values["require_tools"], values["format"]) == (None, (), None)


@pytest.mark.parametrize(("name", "values"), [("format", list(FORMATS)), ("on_repeat", ["mask", "remind", "run"])])
def test_words_are_of_a_list_which_the_document_tells(name: str, values: list[str]) -> None:
    assert field_schema(FIELDS[name])["anyOf"][0] == {"enum": values}
    for value in values:
        assert FIELDS[name].read(value, name) == value
    wrong: list[Any] = ["other", None, 1, ["mask"], {}]
    for value in wrong:
        with pytest.raises(ApiError, match=f'"{values[0]}"'):
            FIELDS[name].read(value, name)


def test_names_are_lists_of_texts_which_the_document_tells() -> None:
    for name in ("tools", "require_tools"):
        assert field_schema(FIELDS[name])["anyOf"][0] == {"type": "array", "items": {"type": "string"}}
        with pytest.raises(ApiError) as refused:
            FIELDS[name].read(["a", 1], name)
        assert refused.value.param == f"{name}[1]"
