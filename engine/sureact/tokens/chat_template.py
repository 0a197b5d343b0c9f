"""Messages to prompt: runs the checkpoint's Jinja chat template and keeps track of what is control and what is text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NotRequired, TypedDict

from jinja2 import TemplateError

from sureact.errors import ConfigError, TemplateVariableError
from sureact.tokens.data_marks import DataMarks, data_texts
from sureact.tokens.template_environment import MARKS_VARIABLE, template_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Message(TypedDict):
    """One chat message, as chat templates take it."""

    role: str
    content: str
    tool_calls: NotRequired[list[dict[str, object]]]
    name: NotRequired[str]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a prompt."""

    text: str
    is_control: bool
    """Whether control tokens are recognized in it. False for everything a user, a tool or a model wrote."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """A rendered prompt. Neighboring spans are tokenized jointly; only control spans can yield control tokens."""

    spans: tuple[TextSpan, ...]

    @property
    def text(self) -> str:
        """The prompt as one string."""
        return "".join(span.text for span in self.spans)

    def __add__(self, other: PromptText) -> PromptText:
        """Concatenate two prompts."""
        return PromptText(self.spans + other.spans)


class ChatTemplate:
    """A checkpoint's chat template.

    What messages and tools hold is data and becomes text spans; what the template writes becomes control spans.

    Args:
        source: the template, in the Jinja dialect of Hugging Face.
        special_tokens: variables such as `bos_token` that the template may use.
        control_tokens: strings of all control tokens.

    Raises:
        ConfigError: the template is not valid Jinja.
    """

    def __init__(
        self, source: str, *, special_tokens: Mapping[str, str] | None = None, control_tokens: Sequence[str] = ()
    ) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        self._control_tokens = tuple(control_tokens)
        try:
            self._template = template_environment().from_string(source)
        except TemplateError as error:
            raise ConfigError(f"The chat template is not valid: {error}.") from error

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, object]] = (),
        add_generation_prompt: bool = True,
        variables: Mapping[str, object] | None = None,
    ) -> PromptText:
        """Render messages. The text is that of transformers' `apply_chat_template`.

        Args:
            messages: the conversation so far.
            tools: JSON schemas of tools, in the form that chat templates take.
            add_generation_prompt: whether the prompt ends with the opening of an assistant message.
            variables: further variables that the template knows, such as `enable_thinking`.

        Raises:
            TemplateVariableError: a variable is a text that holds a control token.
            ConfigError: the template refuses the messages, or rewrites a text that holds a control token, so that what
                is text and what is control can no longer be told apart.
        """
        self._check_roles(messages)
        self._check_variables(variables or {})
        run = partial(self._run, {"add_generation_prompt": add_generation_prompt, **(variables or {})})
        rendered = run(messages, tools)
        marks = DataMarks()
        try:
            marked = run(marks.hide(messages), marks.hide(tools), marks)
        except ConfigError:  # the template looks into the contents and refuses the stand-ins
            return self._search_data(rendered, messages, tools)
        spans = tuple(TextSpan(text, is_control) for text, is_control in marks.split(marked))
        if "".join(span.text for span in spans) != rendered:
            return self._search_data(rendered, messages, tools)
        return PromptText(spans)

    def _run(
        self, variables: Mapping[str, object], messages: object, tools: object, marks: DataMarks | None = None
    ) -> str:
        names = {"messages": messages, "tools": tools or None, "documents": None, MARKS_VARIABLE: marks}
        try:
            # As one argument: a variable may be called like a parameter, such as `self`.
            return self._template.render(self._special_tokens | names | dict(variables))
        # Besides its own errors a template raises what its Python operators do, such as adding None to a text.
        except (
            TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise ConfigError(f"The chat template refuses these messages: {error}.") from error

    def _check_roles(self, messages: Sequence[Message]) -> None:
        for message in messages:
            role = message.get("role")
            if any(token in str(role) for token in self._control_tokens):
                raise ConfigError(f"The role {role!r} holds a control token; it must be a word such as 'user'.")

    def _check_variables(self, variables: Mapping[str, object]) -> None:
        """Refuse what would become control: templates look at variables, so these cannot be hidden as data is."""
        for name, value in variables.items():
            if isinstance(value, str) and any(token in value for token in self._control_tokens):
                message = f"The template's variable {name!r} holds a control token; it must be plain text."
                raise TemplateVariableError(message, name=name)

    def _search_data(self, rendered: str, messages: object, tools: object) -> PromptText:
        """Find the data that holds control tokens in what a template made of it, where stand-ins do not get through."""
        ranges: list[tuple[int, int]] = []
        for text in {*data_texts(messages), *data_texts(tools)}:
            if any(token in text for token in self._control_tokens):
                ranges += self._find_data(rendered, text.strip())
        spans: list[TextSpan] = []
        position = 0
        for start, end in sorted(ranges):
            spans.append(TextSpan(rendered[position : max(start, position)], is_control=True))
            spans.append(TextSpan(rendered[max(start, position) : end], is_control=False))
            position = max(position, end)
        spans.append(TextSpan(rendered[position:], is_control=True))
        return PromptText(tuple(span for span in spans if span.text))

    def _find_data(self, rendered: str, text: str) -> list[tuple[int, int]]:
        spellings = {text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}
        found = [match.span() for spelling in spellings for match in re.finditer(re.escape(spelling), rendered)]
        if not found or text in self.source:
            raise ConfigError(
                f"The chat template rewrites a text that holds a control token, so the token cannot be kept as text: "
                f"{text[:80]!r}. Take the control token out of the text."
            )
        return found
