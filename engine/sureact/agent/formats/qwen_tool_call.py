"""Qwen's own form: calls as JSON between `<tool_call>` tags, observations as tool messages of the chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from sureact.agent.call_opening import CLOSE_TAG, OPEN_TAG, without_fence
from sureact.agent.prompt_format import PromptFormat, call_branches, ids_of_tag, plain_text, template_text
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.tool_notation import function_notation
from sureact.errors import ConfigError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.tokens.chat_template import Message, PromptText

_AFTER_ARGUMENTS = "}\n"
_BARE_CALL = '{"name":'

# Contents of a rendered sample conversation; what the template puts between them is what it puts between ours.
_SAMPLE: list[Message] = [
    {"role": "user", "content": "%sample-question%"},
    {"role": "assistant", "content": "%sample-call%"},
    {"role": "tool", "content": "%sample-observation%"},
    {"role": "user", "content": "%sample-request%"},
]


class QwenToolCallFormat(PromptFormat):
    """The chat form that Qwen models are trained on for function calling."""

    name: ClassVar[str] = "qwen_tool_call"
    before_name: ClassVar[str] = '\n{"name": "'
    before_arguments: ClassVar[str] = '", "arguments": '
    system_template: ClassVar[str] = "qwen_tool_call_system"
    """Name of the template of the first message."""

    def __init__(
        self, lm: LanguageModel, signature: Signature, tools: Mapping[str, Tool], output_lines: list[str]
    ) -> None:
        from sureact.constraints.call_grammar import ControlToken, tool_call_grammar

        self._lm = lm
        self._functions = [function_notation(tool) for tool in tools.values()]
        self._system = render_template(
            self.system_template, instructions=signature.instructions, output_lines=output_lines
        )
        self._request = render_template("outputs_request", output_lines=output_lines)
        self._read_turns(lm)
        self.call_constraint = tool_call_grammar(
            call_branches(tools),
            prefix=(ControlToken(OPEN_TAG), self.before_name),
            delimiter=self.before_arguments,
            suffix=(_AFTER_ARGUMENTS, ControlToken(CLOSE_TAG)),
        )

    def _read_turns(self, lm: LanguageModel) -> None:
        """Learn from the chat template what stands between the turns."""
        question, call, observation, request = (message["content"] for message in _SAMPLE)
        ended = lm.render_chat(_SAMPLE[:3], add_generation_prompt=False).text
        going_on = lm.render_chat(_SAMPLE[:3]).text
        asked = lm.render_chat(_SAMPLE).text
        for text, contents in ((going_on, (question, call, observation)), (asked, (observation, request))):
            _require_contents(text, contents, lm.name)
        observation_end = ended.partition(observation)[2]
        self._before_observation = going_on.partition(call)[2].partition(observation)[0]
        self._after_observation = observation_end
        self.thought_start = template_text(going_on.partition(observation)[2].removeprefix(observation_end))
        after_observation, _, self._after_request = asked.partition(observation)[2].partition(request)
        self._before_request = after_observation.removeprefix(observation_end)

    @override
    def opening(self, inputs: Mapping[str, Any]) -> PromptText:
        task = render_template("inputs", inputs=input_texts(inputs))
        messages: list[Message] = [
            {"role": "system", "content": self._system},
            {"role": "user", "content": task},
        ]
        return self._lm.render_chat(messages, tools=self._functions, add_generation_prompt=False)

    @override
    def thought_params(self, session: LanguageModelSession, max_tokens: int) -> SamplingParams:
        # One line: without a call in sight small models go on in numbered lists until the budget ends. They also write
        # a call without its tag, or spell the tag out in place of its control token.
        return SamplingParams(max_tokens=max_tokens, stop=["\n", _BARE_CALL, OPEN_TAG, ids_of_tag(OPEN_TAG, session)])

    @override
    def closed_thought(self, text: str) -> str:
        # Small models open a fence for their call, and its tag stands in place of that.
        return super().closed_thought(without_fence(text))

    @override
    def call(self, tool_name: str, args_json: str) -> PromptText:
        return call_text(tool_name, args_json)

    @override
    def observation(self, text: str) -> PromptText:
        return template_text(self._before_observation) + plain_text(text) + template_text(self._after_observation)

    @override
    def outputs_request(self) -> PromptText:
        return template_text(self._before_request) + plain_text(self._request) + template_text(self._after_request)


def _require_contents(text: str, contents: Sequence[str], model_name: str) -> None:
    positions = [text.find(content) for content in contents]
    if -1 in positions or positions != sorted(positions):
        raise ConfigError(
            f"The chat template of {model_name} does not render tool messages in order, so the format "
            f"{QwenToolCallFormat.name!r} cannot be used; take prompt_format='fields'."
        )


def call_text(tool_name: str, args_json: str) -> PromptText:
    """Return a call as the model would have written it."""
    before_name, before_arguments = QwenToolCallFormat.before_name, QwenToolCallFormat.before_arguments
    body = f"{before_name}{tool_name}{before_arguments}{args_json}{_AFTER_ARGUMENTS}"
    return template_text(OPEN_TAG) + plain_text(body) + template_text(CLOSE_TAG)
