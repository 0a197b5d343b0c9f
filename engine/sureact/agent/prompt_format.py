"""The interface of prompt formats: how a run is written down for the model.

A format only ever adds text at the end of the context. Each text begins at a token boundary: after a newline or at a
control token, and none ends in a space, so the ids built piece by piece are those of tokenizing the whole text.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sureact.tokens.chat_template import PromptText, TextSpan

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.agent.trajectory import Step
    from sureact.constraints.call_grammar import ToolCallBranch, ToolCallConstraint
    from sureact.sampling_params import SamplingParams

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
AFTER_THINK = "\n\n"
"""What thinking models write around a thought, and after it."""


class PromptFormat(ABC):
    """How one agent's runs are written down: opening, thought, call, observation, request for the outputs."""

    name: ClassVar[str]
    """Name to choose the format by."""

    before_name: ClassVar[str]
    """Text between the start of a call, or its opening control token, and the tool's name."""

    before_arguments: ClassVar[str]
    """Text between the tool's name and its arguments; no name holds it."""

    call_constraint: ToolCallConstraint
    """Decides tool name and arguments together; parses to `(name, args)`."""

    thought_start: PromptText
    """What stands before every thought, after the opening or an observation."""

    @abstractmethod
    def __init__(
        self, lm: LanguageModel, signature: Signature, tools: Mapping[str, Tool], output_lines: list[str]
    ) -> None:
        """Prepare for a model, a task and its tools.

        Args:
            lm: whose chat template is used.
            signature: the task.
            tools: all tools of the loop, `finish` among them.
            output_lines: the outputs that will be asked for, a line each.

        Raises:
            UnsupportedSchemaError: the arguments of a tool cannot be enforced.
            ConfigError: the model's chat template cannot carry this format.
        """

    @abstractmethod
    def opening(self, inputs: Mapping[str, Any]) -> PromptText:
        """Return the prompt up to where the first thought begins."""

    @abstractmethod
    def thought_params(self, session: LanguageModelSession, max_tokens: int) -> SamplingParams:
        """Return how a thought is generated, above all where it stops."""

    @abstractmethod
    def observation(self, text: str) -> PromptText:
        """Return what follows a call: the observation, and what surrounds it."""

    def observation_of(self, step: Step) -> PromptText:
        """Return what follows the call of a finished step; a format may write nothing after the last one."""
        return self.observation(step.observation)

    @abstractmethod
    def call(self, tool_name: str, args_json: str) -> PromptText:
        """Return a call as the model would have written it."""

    @abstractmethod
    def outputs_request(self) -> PromptText:
        """Return what asks for the outputs' JSON, after an observation."""

    def closed_thought(self, text: str) -> str:
        """Return a thought as it stands before a call: on lines of its own, none for an empty thought."""
        if not text.strip():
            return ""
        return text if text.endswith("\n") else text.rstrip() + "\n"

    def tool_name_of(self, call_text: str) -> str:
        """Return the tool's name in a finished call, whatever its arguments are."""
        return call_text.partition(self.before_name)[2].partition(self.before_arguments)[0]

    def step(self, step: Step) -> PromptText:
        """Return a finished step, with its start, as it stands in a context."""
        # No tool was named where no call could be decoded.
        call = self.call(step.tool_name, args_json(step.tool_args)) if step.tool_name else plain_text("")
        return self.thought(step.thought) + call + self.observation_of(step)

    def thought(self, text: str) -> PromptText:
        """Return a finished thought, with its start, as it stands in a context."""
        return think_closed(self.thought_start) + plain_text(self.closed_thought(self.thought_prefix + text))

    thought_prefix: ClassVar[str] = ""
    """What the model itself writes between `thought_start` and a thought."""

    after_thought: ClassVar[str] = ""
    """What may stand at the end of a generated thought and is no part of it; white space apart."""


def call_branches(tools: Mapping[str, Tool]) -> list[ToolCallBranch]:
    """Return the tools as the call grammar takes them.

    Raises:
        UnsupportedSchemaError: the arguments of a tool cannot be enforced.
    """
    from sureact.constraints.call_grammar import ToolCallBranch
    from sureact.constraints.json_schema import json_schema

    for tool in tools.values():
        # Refuses now what the grammar would refuse in the middle of a run.
        json_schema(tool.parameters, additional_properties="closed").check()
    return [ToolCallBranch(tool.name, tool.parameters) for tool in tools.values()]


def args_json(args: Mapping[str, Any]) -> str:
    """Return arguments as the model would have written them."""
    # A lone surrogate can only have come from an escape, so it is one again.
    return json.dumps(args, ensure_ascii=False).encode(errors="backslashreplace").decode()


def plain_text(text: str) -> PromptText:
    """Return text in which nothing is a control token."""
    return PromptText((TextSpan(text, is_control=False),))


def ends_in_think(text: PromptText) -> bool:
    """Whether a chat template opened a `<think>` and left it open, as those of models that always think do."""
    control = "".join(span.text for span in text.spans if span.is_control)
    return control.rfind(THINK_OPEN) > control.rfind(THINK_CLOSE)


def think_closed(text: PromptText) -> PromptText:
    """Return a prompt after which something else than a thought can be decoded."""
    return text + template_text(THINK_CLOSE + AFTER_THINK) if ends_in_think(text) else text


def template_text(text: str) -> PromptText:
    """Return text of a chat template, whose control tokens count."""
    return PromptText((TextSpan(text, is_control=True),))


def ids_of_tag(tag: str, session: LanguageModelSession) -> tuple[int, ...]:
    """Return the ids of a tag: one if the tokenizer has it as a control token. The session stays as it is."""
    num_tokens = len(session.token_ids)
    session.append(template_text(tag))
    ids = tuple(session.token_ids[num_tokens:])
    session.truncate(num_tokens)
    return ids
