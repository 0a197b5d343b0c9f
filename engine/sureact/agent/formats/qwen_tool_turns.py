"""Qwen's form for turns of several calls: one or more `<tool_call>` blocks, then all responses in one go.

The outputs are the arguments of a call of `submit`. A call of it stands alone in its turn: beside others it would be
written before their responses are known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sureact.agent.call_opening import CLOSE_TAG, OPEN_TAG
from sureact.agent.formats.qwen_tool_call import QwenToolCallFormat
from sureact.agent.prompt_format import args_json, call_branches, ids_of_tag, plain_text, template_text
from sureact.agent.prompt_template import input_texts, render_template
from sureact.errors import ConfigError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.history import Turn
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.constraints.call_grammar import ToolCallConstraint
    from sureact.outputs import StepOutput
    from sureact.tokens.chat_template import Message, PromptText

SUBMIT = "submit"
"""Name of the built-in tool whose arguments are the outputs."""

_BETWEEN_CALLS = "\n"

# What the template puts between these contents is what it puts between ours.
_SAMPLE: list[Message] = [
    {"role": "user", "content": "%sample-question%"},
    {"role": "assistant", "content": "%sample-calls%"},
    {"role": "tool", "content": "%sample-first%"},
    {"role": "tool", "content": "%sample-second%"},
    {"role": "user", "content": "%sample-message%"},
]


class QwenToolTurnsFormat(QwenToolCallFormat):
    """The chat form of `qwen_tool_call` with several calls a turn, and messages of the user that go on."""

    name: ClassVar[str] = "qwen_tool_turns"
    system_template: ClassVar[str] = "qwen_tool_turns_system"

    later_call_constraint: ToolCallConstraint | None
    """A call that is not the first of its turn; None if there is no tool but `submit`."""
    submit_constraint: ToolCallConstraint
    """A call of `submit`."""

    def __init__(self, lm: LanguageModel, signature: Signature, tools: Mapping[str, Tool]) -> None:
        """Prepare for a model, a task and its tools, `submit` among them.

        Raises:
            UnsupportedSchemaError: the arguments of a tool, or an output, cannot be enforced.
            ConfigError: the model's chat template cannot carry this format.
        """
        super().__init__(lm, signature, tools, [])
        self._read_sides(lm)
        others = {name: tool for name, tool in tools.items() if name != SUBMIT}
        self.later_call_constraint = _calls_of(others) if others else None
        self.submit_constraint = _calls_of({SUBMIT: tools[SUBMIT]})

    def _read_sides(self, lm: LanguageModel) -> None:
        """Learn from the chat template what stands between two observations and after a message."""
        *_, first, second, message = (entry["content"] for entry in _SAMPLE)
        text = lm.render_chat(_SAMPLE, add_generation_prompt=False).text
        if not 0 <= text.find(first) < text.find(second) < text.find(message):
            raise ConfigError(
                f"The chat template of {lm.name} does not render several tool messages in order, so turns of several "
                "calls cannot be written for it; take sureact.ReAct, or another model."
            )
        self._between_observations = text.partition(first)[2].partition(second)[0]
        self._after_message = text.partition(message)[2]

    between_calls: ClassVar[PromptText] = template_text(_BETWEEN_CALLS)
    """What stands between two calls of a turn."""

    def peek_params(self, session: LanguageModelSession) -> SamplingParams:
        """Return how the model is asked, after `between_calls`, whether it makes another call: freely, by one token.

        Before that newline it cannot be asked: the newline itself nearly always comes, whatever follows. The odds that
        `FurtherCall` compares in chats lead too far here: an agent's calls run, and one that is missing can be made in
        the next turn (`docs/evaluation.md`).
        """
        return SamplingParams(max_tokens=1, stop=[ids_of_tag(OPEN_TAG, session)])

    def begins_call(self, peeked: StepOutput) -> bool:
        """Whether the model began a call. Small models leave its tag out, or spell it out."""
        return isinstance(peeked.stop_reason, tuple) or peeked.text.lstrip().startswith(("{", "<"))

    @property
    def digest(self) -> str:
        """SHA-256 of what every conversation starts with: the instructions and the tools."""
        return hashlib.sha256(json.dumps([self._system, self._functions], sort_keys=True).encode()).hexdigest()

    def message(self, inputs: Mapping[str, Any]) -> PromptText:
        """Return what the user says after observations."""
        text = render_template("inputs", inputs=input_texts(inputs))
        return template_text(self._before_request) + plain_text(text) + template_text(self._after_message)

    def observations(self, texts: Sequence[str]) -> PromptText:
        """Return what follows the calls of a turn: an observation each, in their order."""
        prompt = template_text(self._before_observation) + plain_text(texts[0])
        for text in texts[1:]:
            prompt += template_text(self._between_observations) + plain_text(text)
        return prompt + template_text(self._after_observation)

    def observations_of(self, turn: Turn) -> PromptText:
        """Return what follows the calls of a turn of a conversation."""
        return self.observations([call.observation for call in turn.calls])

    def turns(self, turns: Sequence[Turn]) -> PromptText:
        """Return a conversation up to the end of the calls of its last turn."""
        prompt = self.opening(turns[0].inputs or {})
        for index, turn in enumerate(turns):
            if index:
                prompt += self.observations_of(turns[index - 1])
                prompt += self.message(turn.inputs) if turn.inputs is not None else plain_text("")
            prompt += self.thought(turn.thought)
            for position, call in enumerate(turn.calls):
                prompt += self.between_calls if position else plain_text("")
                # No tool was named where no call could be decoded.
                prompt += self.call(call.tool_name, args_json(call.tool_args)) if call.tool_name else plain_text("")
        return prompt


def _calls_of(tools: Mapping[str, Tool]) -> ToolCallConstraint:
    from sureact.constraints.call_grammar import ControlToken, tool_call_grammar

    return tool_call_grammar(
        call_branches(tools),
        prefix=(ControlToken(OPEN_TAG), QwenToolCallFormat.before_name),
        delimiter=QwenToolCallFormat.before_arguments,
        suffix=("}\n", ControlToken(CLOSE_TAG)),
    )
