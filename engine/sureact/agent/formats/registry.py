"""Prompt formats by name, and the default of each model."""

from __future__ import annotations

from sureact.agent.formats.fields import FieldsFormat
from sureact.agent.formats.qwen_react import QwenReactFormat
from sureact.agent.formats.qwen_tool_call import QwenToolCallFormat
from sureact.agent.prompt_format import PromptFormat
from sureact.errors import ConfigError

FORMATS: dict[str, type[PromptFormat]] = {
    prompt_format.name: prompt_format for prompt_format in (FieldsFormat, QwenToolCallFormat, QwenReactFormat)
}


def format_named(name: str) -> type[PromptFormat]:
    """Return the format of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMATS:
        raise ConfigError(f"There is no prompt format {name!r}; there are {', '.join(map(repr, FORMATS))}.")
    return FORMATS[name]


def default_format(model_name: str) -> type[PromptFormat]:
    """Return the format in which a model does best on the task set of `benchmarks/agent`."""
    return _DEFAULTS.get(model_name, FieldsFormat)


# Models that do better in another format than `fields`.
_DEFAULTS: dict[str, type[PromptFormat]] = {}
