"""A prompt as a function: its docstring is a Jinja template, its arguments are the template's variables."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, overload

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Template

_P = ParamSpec("_P")


@overload
def prompt(function: Callable[_P, object], /) -> Callable[_P, str]: ...


@overload
def prompt(*, filters: Mapping[str, Callable[..., object]]) -> Callable[[Callable[_P, object]], Callable[_P, str]]: ...


def prompt(
    function: Callable[..., object] | None = None, /, *, filters: Mapping[str, Callable[..., object]] | None = None
) -> Callable[..., object]:
    '''Make a function that renders its own docstring with its arguments.

        @prompt
        def ask(question, tools):
            """Answer with the help of these tools.

            {% for tool in tools %}
            {{ tool | name }}({{ tool | args }}): {{ tool | description }}
            {% endfor %}

            Question: {{ question }}
            """

    `ask("Why?", tools=[search])` is then a text. The function keeps its name and signature, and works with
    `functools.partial`. A docstring that ends in an empty line makes a prompt that ends in a newline. Blanks inside a
    line stay as they are.

    The template is code of yours and runs as such, in no sandbox: never make one of a text that somebody else wrote.

    Args:
        function: has the docstring; its body is never run.
        filters: filters beside, or in place of, `name`, `description`, `source`, `signature` and `args`, which take a
            callable or a `Tool`, and `schema`, which takes a `Tool`, a pydantic model or a schema.

    Raises:
        ConfigError: there is no docstring, or it is no template; when called: the template uses what it was not given.
    '''
    if function is None:
        return functools.partial(_rendering, filters=filters or {})
    return _rendering(function, {})


def _rendering(function: Callable[..., object], filters: Mapping[str, Callable[..., object]]) -> Callable[..., str]:
    from jinja2 import UndefinedError

    name = getattr(function, "__name__", repr(function))
    template = _template(name, function.__doc__, filters)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def render(*args: object, **kwargs: object) -> str:
        values = signature.bind(*args, **kwargs)
        values.apply_defaults()
        try:
            return template.render(values.arguments)
        except UndefinedError as error:
            raise ConfigError(f"The template of the prompt {name} uses what it was not given: {error}.") from error

    return render


def _template(name: str, docstring: str | None, filters: Mapping[str, Callable[..., object]]) -> Template:
    from jinja2 import Environment, StrictUndefined, TemplateSyntaxError

    from sureact.agent.template_filters import FILTERS

    if not docstring or not docstring.strip():
        raise ConfigError(
            f"The prompt {name} has no docstring, which is its template. Write one; `python -OO` takes them away."
        )
    text = inspect.cleandoc(docstring).rstrip()
    if docstring.rstrip(" ").endswith("\n\n"):
        text += "\n"
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.filters |= {**FILTERS, **filters}
    try:
        return environment.from_string(text)
    except TemplateSyntaxError as error:
        raise ConfigError(
            f"The docstring of the prompt {name} is no template: {error}, line {error.lineno}."
        ) from error
