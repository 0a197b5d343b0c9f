import functools
import inspect

import pytest

from sureact.agent.prompt import prompt
from sureact.agent.tool import Tool
from sureact.errors import ConfigError


def search(query: str, k: int = 5) -> list[str]:
    """Search the archive."""
    return [query] * k


@prompt
def ask(question: str, tools: list[object], *, style: str = "short") -> None:
    """Answer in a {{ style }} way.

    {% for tool in tools %}
    {{ tool | name }}({{ tool | args }}): {{ tool | description }}
    {% endfor %}

    | a    | b |
    Question: {{ question }}
    """
    raise AssertionError("the body of a prompt is never run")


TEXT = """\
Answer in a short way.

search(query: str, k: int = 5): Search the archive.

| a    | b |
Question: Why?"""


def test_the_docstring_is_rendered_with_the_arguments() -> None:
    assert ask("Why?", [search]) == TEXT
    assert ask(tools=[Tool(search)], question="Why?") == TEXT


def test_defaults_hold_and_can_be_given() -> None:
    assert ask("Why?", [], style="long").startswith("Answer in a long way.")


def test_arguments_can_be_bound_in_advance() -> None:
    with_tools = functools.partial(ask, tools=[search])
    assert with_tools("Why?") == TEXT


def test_name_and_signature_stay() -> None:
    assert ask.__name__ == "ask"
    assert list(inspect.signature(ask).parameters) == ["question", "tools", "style"]
    with pytest.raises(TypeError, match="question"):
        ask(tools=[])  # pyright: ignore[reportCallIssue]


def test_filters_can_be_added_and_replaced() -> None:
    def loud(text: str) -> str:
        return text.upper()

    def anonymous(_: object) -> str:
        return "a tool"

    @prompt(filters={"loud": loud, "name": anonymous})
    def shout(word: str) -> None:
        """{{ word | loud }} {{ word | name }}"""

    assert shout("go") == "GO a tool"


def test_a_docstring_that_ends_in_an_empty_line_ends_the_prompt_with_a_newline() -> None:
    def line(word: str) -> None: ...

    line.__doc__ = "{{ word }}:\n\n    "
    assert prompt(line)("go") == "go:\n"


def test_a_method_can_be_a_prompt() -> None:
    class Guide:
        @prompt
        def greet(self, guest: str) -> None:
            """Welcome, {{ guest }}."""

    assert Guide().greet("Bo") == "Welcome, Bo."


def test_a_variable_that_is_not_given_is_named() -> None:
    @prompt
    def broken(word: str) -> None:
        """{{ word }} {{ other }}"""

    with pytest.raises(ConfigError, match="broken uses what it was not given: 'other'"):
        broken("a")


def test_a_prompt_needs_a_docstring() -> None:
    def empty(word: str) -> None: ...

    with pytest.raises(ConfigError, match="empty has no docstring"):
        prompt(empty)


@pytest.mark.parametrize("docstring", ["{{ word", "{% for %}", "{{ word | nonsense }}"])
def test_a_docstring_that_is_no_template_is_refused_with_its_line(docstring: str) -> None:
    def broken(word: str) -> None: ...

    broken.__doc__ = "A line.\n" + docstring
    with pytest.raises(ConfigError, match=r"broken is no template: .*, line 2"):
        prompt(broken)
