"""The classic ReAct text that the first Qwen chat models were trained on: `Action Input:` and `Final Answer:`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from sureact.agent.prompt_format import PromptFormat, call_branches, plain_text
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.tool import FINISH
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.agent.trajectory import Step
    from sureact.tokens.chat_template import PromptText

OBSERVATION = "Observation:"
STOP_WORDS = (OBSERVATION, f"{OBSERVATION}\n")
"""Where a text of the model must end, because what follows is for a tool to say."""

_AFTER_ARGUMENTS = "\n"
_FINAL_ANSWER = "Final Answer:\n"
_OUTPUTS_REQUEST = "Outputs as one JSON object:\n"
_PLAIN_QUESTIONS = ("question", "query")


class QwenReactFormat(PromptFormat):
    """Lines `Thought:`, `Action:`, `Action Input:`, `Observation:` in one assistant turn, up to `Final Answer:`.

    `Final Answer:` stands where other formats call `finish`, and the model decides between it and the tools under one
    grammar. A thought is one line, or ends before an observation that the model makes up.
    """

    name: ClassVar[str] = "qwen_react"
    before_name: ClassVar[str] = "Action: "
    before_arguments: ClassVar[str] = "\nAction Input: "
    thought_prefix: ClassVar[str] = " "
    after_thought: ClassVar[str] = OBSERVATION

    def __init__(
        self, lm: LanguageModel, signature: Signature, tools: Mapping[str, Tool], output_lines: list[str]
    ) -> None:
        from sureact.constraints.call_grammar import tool_call_grammar

        self._lm = lm
        self._instructions = signature.instructions
        self._tools = {name: tool for name, tool in tools.items() if name != FINISH}
        self._final_answer = "\n  ".join(["the outputs, as one JSON object of these fields:", *output_lines])
        self._stop_word_ids: list[list[int]] = []
        self.thought_start = plain_text("Thought:")
        self.call_constraint = tool_call_grammar(
            call_branches(self._tools),
            prefix=self.before_name,
            delimiter=self.before_arguments,
            suffix=_AFTER_ARGUMENTS,
            endings={FINISH: _FINAL_ANSWER},
        )

    @override
    def opening(self, inputs: Mapping[str, Any]) -> PromptText:
        question = _question(input_texts(inputs))
        prompt = react_prompt(self._instructions, self._tools.values(), question, self._final_answer)
        return self._lm.render_chat([{"role": "user", "content": prompt}])

    @override
    def thought_params(self, session: LanguageModelSession, max_tokens: int) -> SamplingParams:
        self._stop_word_ids = self._stop_word_ids or stop_word_ids(session)
        # The newline stays: a token such as ".\n" is then kept as the model chose it.
        stop = ["\n", *STOP_WORDS, *self._stop_word_ids]
        return SamplingParams(max_tokens=max_tokens, stop=stop, include_stop=True)

    @override
    def closed_thought(self, text: str) -> str:
        # `Thought:` began a line, which an empty thought must end too.
        return super().closed_thought(text.partition(OBSERVATION)[0]) or "\n"

    @override
    def call(self, tool_name: str, args_json: str) -> PromptText:
        if tool_name == FINISH:
            return plain_text(_FINAL_ANSWER)
        return plain_text(f"{self.before_name}{tool_name}{self.before_arguments}{args_json}{_AFTER_ARGUMENTS}")

    @override
    def observation(self, text: str) -> PromptText:
        return plain_text(f"{OBSERVATION} {text.rstrip()}".rstrip() + "\n")

    @override
    def observation_of(self, step: Step) -> PromptText:
        # The outputs stand right after their label.
        return plain_text("") if step.tool_name == FINISH else self.observation(step.observation)

    @override
    def outputs_request(self) -> PromptText:
        return plain_text(_OUTPUTS_REQUEST)


def react_prompt(instructions: str, tools: Iterable[Tool], question: str, final_answer: str) -> str:
    """Return the prompt up to the question.

    Args:
        instructions: what stands before everything else; may be empty.
        tools: described in a block each.
        question: what follows `Question:`, with the blank or newline between them.
        final_answer: what is said to stand after `Final Answer:`.
    """
    tools = list(tools)
    return render_template(
        "qwen_react_prompt",
        instructions=instructions,
        tools=[tool_block(tool) for tool in tools],
        tool_names=", ".join(tool.name for tool in tools),
        final_answer=final_answer,
        question=question,
    )


def tool_block(tool: Tool) -> str:
    """Return a tool in one line: its name, what it is for, and its parameters as a JSON list."""
    title = f" ({tool.title})" if tool.title != tool.name else ""
    before = " ".join(f"{tool.name}{title}: {tool.desc} Parameters:".split())
    return f"{before} {parameters_json(tool)} Write the arguments as one JSON object."


def stop_word_ids(session: LanguageModelSession) -> list[list[int]]:
    """Return the stop words as token ids, each as it stands at the start of a line. The session stays as it is."""
    start = len(session.token_ids)
    found: list[list[int]] = []
    for word in STOP_WORDS:
        session.append(word)
        found.append(list(session.token_ids[start:]))
        session.truncate(start)
    return found


def parameters_json(tool: Tool) -> str:
    """Return the parameters of a tool as the tutorial lists them, or its schema where that has shared types."""
    if "$defs" in tool.parameters:
        return json.dumps(tool.parameters, ensure_ascii=False)
    required = tool.parameters.get("required", ())
    parameters = [
        {
            "name": name,
            "description": schema.get("description", ""),
            "required": name in required,
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in tool.args.items()
    ]
    return json.dumps(parameters, ensure_ascii=False)


def _question(inputs: Mapping[str, str]) -> str:
    """Return a lone question as it is, other inputs with their names."""
    if len(inputs) == 1 and next(iter(inputs)) in _PLAIN_QUESTIONS:
        return " " + next(iter(inputs.values())).strip()
    return "\n" + render_template("inputs", inputs=inputs)
