"""Renders the Jinja files of the folder `prompts` with outlines templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from sureact.agent.observation import observation_text

if TYPE_CHECKING:
    from outlines.templates import Template


def render_template(name: str, **values: object) -> str:
    """Render `prompts/<name>.jinja`; white space at the ends is dropped."""
    return _template(name)(**values).strip()


def input_texts(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return inputs as prompts show them: texts as they are, other values as JSON."""
    return {name: observation_text(value) for name, value in inputs.items()}


@lru_cache
def _template(name: str) -> Template:
    from outlines.templates import Template  # slow to import, and only prompts need it

    with as_file(files("sureact.agent") / "prompts" / f"{name}.jinja") as path:
        return Template.from_file(path)
