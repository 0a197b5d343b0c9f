"""The two predictors of a ReAct agent: what is learned of its steps and of its outputs, and how a prompt tells it.

An agent runs on one growing session, so they are not called one after another, as in dspy: their instructions and
demos stand at the start of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from typing_extensions import override

from sureact.agent.demos import demo_json
from sureact.agent.extraction import OutputExtraction
from sureact.agent.json_object import ObjectField
from sureact.agent.observation import observation_text
from sureact.agent.predict import Predict, require_names
from sureact.agent.prompt_format import PromptFormat, plain_text
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.signature import Signature, signature_of_fields
from sureact.agent.trajectory import Step
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prediction import Prediction
    from sureact.agent.tool import Tool
    from sureact.tokens.chat_template import PromptText

_TRAJECTORY = "trajectory"
_STEP_KEYS = ("thought", "tool_name", "tool_args", "observation")


class StepPredict(Predict):
    """Holds instructions and demos of an agent's steps. It runs as a part of its agent only."""

    @override
    def forward(self, *args: Any, **inputs: Any) -> Prediction:
        """Refuse to run.

        Raises:
            ConfigError: always.
        """
        require_names(args, self.signature)
        raise ConfigError(
            "The steps of an agent are decoded on its session, so its predictor `react` cannot be called alone; call "
            "the agent, with max_iters=1 for one step."
        )

    @override
    def _prepare(self) -> None:
        """Build nothing: the agent's prompt format has the constraint of its steps."""


def step_signature(signature: Signature, tool_names: Iterable[str]) -> Signature:
    """Return the signature of a step: the inputs and the trajectory give a thought, a tool and its arguments."""
    outputs = {
        "next_thought": ObjectField(str),
        "next_tool_name": ObjectField(Literal[tuple(tool_names)]),
        "next_tool_args": ObjectField(dict[str, Any]),
    }
    return signature_of_fields(_with_trajectory(signature), outputs, signature.instructions)


def output_signature(signature: Signature) -> Signature:
    """Return the signature of the extraction: the inputs and the trajectory give the outputs."""
    return signature_of_fields(_with_trajectory(signature), signature.outputs, signature.instructions)


class PreparedPrompt(NamedTuple):
    """What is built of an agent's predictors, and of what it was built."""

    sources: tuple[object, ...]
    extraction: OutputExtraction
    prompt_format: PromptFormat


def prepared_prompt(
    lm: LanguageModel,
    format_class: type[PromptFormat],
    tools: Mapping[str, Tool],
    react: Predict,
    extract: Predict,
    before: PreparedPrompt | None,
) -> PreparedPrompt:
    """Return `before` where nothing has changed since, else what is built anew.

    Raises:
        ConfigError: a demo does not fit its predictor.
    """
    sources = (lm, react.signature, react.judged_demos(), extract.signature, extract.judged_demos())
    if before is not None and all(old is new for old, new in zip(before.sources, sources, strict=True)):
        return before
    extraction = OutputExtraction(extract.signature, with_reasoning=False, budget_option="TokenLimits.outputs")
    prompt_format = format_class(lm, react.signature, tools, extraction.field_lines())
    instructions = agent_instructions(react, extract, prompt_format)
    if instructions != react.signature.instructions:
        signature = react.signature.with_instructions(instructions)
        prompt_format = format_class(lm, signature, tools, extraction.field_lines())
    return PreparedPrompt(sources, extraction, prompt_format)


def agent_instructions(react: Predict, extract: Predict, prompt_format: PromptFormat) -> str:
    """Return the instructions of an agent's prompt, with the demos of its predictors.

    Args:
        react: predictor of the steps.
        extract: predictor of the outputs.
        prompt_format: how steps are written down; of the same agent, with any instructions.

    Raises:
        ConfigError: a demo does not fit its predictor.
    """
    instructions, of_outputs = react.signature.instructions, extract.signature.instructions
    return render_template(
        "agent_instructions",
        instructions=instructions,
        output_instructions="" if of_outputs == instructions else of_outputs,
        steps=[
            _situation(demo.inputs, prompt_format) + _next_step(demo.outputs, prompt_format)
            for demo in react.judged_demos()
        ],
        outputs=[_situation(demo.inputs, prompt_format) + demo_json(demo.outputs) for demo in extract.judged_demos()],
    )


def _with_trajectory(signature: Signature) -> dict[str, ObjectField]:
    # A text, as dspy has it in demos, or a mapping with the keys of a trajectory.
    return {**signature.inputs, _TRAJECTORY: ObjectField(Any)}


def _situation(inputs: Mapping[str, Any], prompt_format: PromptFormat) -> str:
    values = {name: value for name, value in inputs.items() if name != _TRAJECTORY}
    shown = render_template("inputs", inputs=input_texts(values))
    return f"{shown}\n{_steps_text(inputs.get(_TRAJECTORY, ''), prompt_format)}"


def _steps_text(trajectory: object, prompt_format: PromptFormat) -> str:
    if not isinstance(trajectory, Mapping):
        text = observation_text(trajectory).strip()
        return text + "\n" if text else ""
    given = cast("Mapping[str, Any]", trajectory)
    steps: dict[int, dict[str, Any]] = {}
    for key, value in given.items():
        name, _, index = key.rpartition("_")
        if name not in _STEP_KEYS or not index.isdecimal():
            raise ConfigError(
                f"A demo has a trajectory with the key {key!r}; its keys are thought_0, tool_name_0, tool_args_0, "
                "observation_0, and so on."
            )
        steps.setdefault(int(index), {})[name] = value
    if any(len(parts) < len(_STEP_KEYS) for parts in steps.values()):
        raise ConfigError(f"A demo has a trajectory in which a step lacks one of {', '.join(_STEP_KEYS)}.")
    return "".join(_visible(prompt_format.step(_step(index, parts))) for index, parts in sorted(steps.items()))


def _step(index: int, parts: dict[str, Any]) -> Step:
    parts |= {"observation": observation_text(parts["observation"])}
    return Step(index=index, **parts)


def _next_step(outputs: Mapping[str, Any], prompt_format: PromptFormat) -> str:
    thought = prompt_format.thought_prefix + outputs.get("next_thought", "")
    text = prompt_format.thought_start + plain_text(prompt_format.closed_thought(thought))
    if "next_tool_name" in outputs:
        text += prompt_format.call(outputs["next_tool_name"], demo_json(outputs.get("next_tool_args", {})))
    return _visible(text)


def _visible(text: PromptText) -> str:
    """Return the text without control tokens, which would be mere text in instructions."""
    return "".join(span.text for span in text.spans if not span.is_control)
