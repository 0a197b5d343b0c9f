"""Thought, action and arguments as plain labelled lines in one assistant turn, tools as typed signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from sureact.agent.prompt_format import PromptFormat, call_branches, plain_text
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.tool_notation import signature_notation
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.tokens.chat_template import PromptText

_AFTER_ARGUMENTS = "\n"
_OUTPUTS_REQUEST = "Outputs as one JSON object:\n"


class FieldsFormat(PromptFormat):
    """Lines `Thought:`, `Action:`, `Arguments:`, `Observation:`; a thought is one line."""

    name: ClassVar[str] = "fields"
    before_name: ClassVar[str] = "Action: "
    before_arguments: ClassVar[str] = "\nArguments: "
    thought_prefix: ClassVar[str] = " "

    def __init__(
        self, lm: LanguageModel, signature: Signature, tools: Mapping[str, Tool], output_lines: list[str]
    ) -> None:
        from sureact.constraints.call_grammar import tool_call_grammar

        self._lm = lm
        self._system = render_template(
            "fields_system",
            instructions=signature.instructions,
            tools=[signature_notation(tool) for tool in tools.values()],
            output_lines=output_lines,
        )
        self.thought_start = plain_text("Thought:")
        self.call_constraint = tool_call_grammar(
            call_branches(tools),
            prefix=self.before_name,
            delimiter=self.before_arguments,
            suffix=_AFTER_ARGUMENTS,
        )

    @override
    def opening(self, inputs: Mapping[str, Any]) -> PromptText:
        task = render_template("inputs", inputs=input_texts(inputs))
        return self._lm.render_chat([{"role": "system", "content": self._system}, {"role": "user", "content": task}])

    @override
    def thought_params(self, session: LanguageModelSession, max_tokens: int) -> SamplingParams:
        # The newline stays: a token such as ".\n" is then kept as the model chose it.
        return SamplingParams(max_tokens=max_tokens, stop="\n", include_stop=True)

    @override
    def closed_thought(self, text: str) -> str:
        # `Thought:` began a line, which an empty thought must end too.
        return super().closed_thought(text) or "\n"

    @override
    def call(self, tool_name: str, args_json: str) -> PromptText:
        return plain_text(f"{self.before_name}{tool_name}{self.before_arguments}{args_json}{_AFTER_ARGUMENTS}")

    @override
    def observation(self, text: str) -> PromptText:
        return plain_text(f"Observation: {text.rstrip()}".rstrip() + "\n")

    @override
    def outputs_request(self) -> PromptText:
        return plain_text(_OUTPUTS_REQUEST)
