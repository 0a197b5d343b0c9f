import pytest

from sureact.agent.formats.fields import FieldsFormat
from sureact.agent.formats.registry import FORMATS, default_format, format_named
from sureact.errors import ConfigError


def test_every_format_is_found_by_its_name():
    assert set(FORMATS) == {"fields", "qwen_tool_call", "qwen_react"}
    assert all(format_named(name).name == name for name in FORMATS)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="'fields', 'qwen_tool_call'"):
        format_named("xml")


def test_a_model_without_a_measured_default_gets_fields():
    assert default_format("some-model") is FieldsFormat
