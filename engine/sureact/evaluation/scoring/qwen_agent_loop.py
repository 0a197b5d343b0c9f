"""The peers `qwen-agent` and `qwen-agent-react`: two loops of the package, as they come, on a model of ours.

The first is its own choice for Qwen2.5 and later, with calls in the model's tags; the second writes the prompt of the
ReAct tutorial. Both end with a text and know no types: an answer is prose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from sureact.agent.call_opening import CLOSE_TAG, OPEN_TAG
from sureact.agent.prompt_format import ids_of_tag, template_text
from sureact.evaluation.scoring.call_reading import ReadCall, judged, read_calls
from sureact.evaluation.scoring.foreign_loop import MAX_TURN_TOKENS, ForeignLoop, LoopTask
from sureact.evaluation.scoring.qwen_agent_package import (
    BaseFnCallModel,
    BaseTool,
    FnCallAgent,
    Message,
    ReActChat,
    json_loads,
)
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.tool import Tool
    from sureact.evaluation.scoring.peer_loop import PeerRun
    from sureact.tokens import chat_template

LoopName = Literal["fncall", "react"]

_TAGS = (OPEN_TAG, CLOSE_TAG, "<think>", "</think>")
"""What the package looks for in a text, and what are control tokens here, which have no text."""
_ANSWER_STARTS = ("</think>", "Final Answer:")


class QwenAgentLoop(ForeignLoop):
    """Runs tasks by Qwen-Agent, greedily."""

    def __init__(self, lm: LanguageModel, loop: LoopName) -> None:
        """Choose the loop: `fncall` is the package's `FnCallAgent`, `react` its `ReActChat`."""
        self._lm = lm
        base: Any = FnCallAgent if loop == "fncall" else ReActChat
        # An agent has a memory of files unless it brings another, and that makes a folder wherever it runs.
        self._agent_class: Any = type("QwenAgent", (base,), {"mem": None})

    @override
    def prompt(self, task: LoopTask) -> str:
        """Return the question, and the functions as the package describes them."""
        return json.dumps([task.question, [_qwen_tool(tool).function for tool in task.tools]])

    @override
    def play(self, task: LoopTask, run: PeerRun) -> None:
        """Run the agent; the last text of the model is its answer, unless that is a call that the package missed."""
        model = _EngineChat(self._lm, task.max_iters + 1, run)
        agent = self._agent_class(function_list=[_qwen_tool(tool) for tool in task.tools], llm=model)
        tools = {tool.name: tool for tool in task.tools}
        call_tool = agent._call_tool

        def noted(tool_name: str, tool_args: object = "{}", **options: Any) -> Any:
            run.calls.append(_judged(tool_name, tool_args, tools))
            return call_tool(tool_name, tool_args, **options)

        agent._call_tool = noted
        try:
            for _ in agent.run([Message(role="user", content=task.question)]):
                pass
        except _OutOfTurnsError as error:
            run.fault = str(error)
            return
        answer = model.said
        for start in _ANSWER_STARTS:
            answer = answer.rpartition(start)[2].strip()
        if OPEN_TAG in answer or read_calls(answer, tools):
            run.fault = "The loop took for the answer what is a call, but not in its form."
        else:
            run.outputs = {"answer": answer}


class _OutOfTurnsError(Exception):
    """The model was asked once more than the limit allows."""


class _EngineChat(BaseFnCallModel):
    """A model of the package that a session of ours speaks for."""

    def __init__(self, lm: LanguageModel, max_turns: int, run: PeerRun) -> None:
        self._max_tokens = min(MAX_TURN_TOKENS, lm.context_len // 4)
        # The package shortens what is longer than this by its own rules; its count of tokens is a rough one.
        room = lm.context_len - self._max_tokens
        super().__init__({"model": lm.name, "generate_cfg": {"max_input_tokens": room, "use_raw_api": False}})
        self._lm = lm
        self._max_turns = max_turns
        self._num_turns = 0
        self._run = run
        self.said = ""
        """The last text."""

    @override
    def _chat_stream(
        self, messages: Sequence[Any], delta_stream: bool, generate_cfg: Mapping[str, Any]
    ) -> Iterator[list[Message]]:
        yield self._chat_no_stream(messages, generate_cfg)

    @override
    def _chat_no_stream(self, messages: Sequence[Any], generate_cfg: Mapping[str, Any]) -> list[Message]:
        if self._num_turns == self._max_turns:
            raise _OutOfTurnsError(f"No answer came in {self._max_turns} turns.")
        self._num_turns += 1
        chat: list[chat_template.Message] = [{"role": message.role, "content": message.content} for message in messages]
        self.said = self._answer(chat, generate_cfg.get("stop", []))
        return [Message(role="assistant", content=self.said)]

    def _answer(self, messages: Sequence[chat_template.Message], stops: Sequence[str]) -> str:
        """Return what the model says, tags spelled out."""
        session = self._lm.session()
        try:
            # Tags in messages are control tokens to the model, as on the servers that the package is made for.
            session.append(self._lm.render_chat(messages).text, parse_control_tokens=True)
            tags = {ids_of_tag(tag, session): tag for tag in _TAGS}
            text = ""
            left = self._max_tokens
            while left > 0:
                output = session.generate(SamplingParams(max_tokens=left, stop=[*stops, *tags]))
                self._run.num_tokens += output.usage.completion_tokens
                left -= max(output.usage.completion_tokens, 1)
                text += output.text
                tag = tags.get(output.stop_reason) if isinstance(output.stop_reason, tuple) else None
                if tag is None:
                    break
                text += tag
                session.append(template_text(tag))
            return text
        finally:
            session.close()


def _qwen_tool(tool: Tool) -> Any:
    """Return a tool as the package's users write one: a class that reads its own arguments, and may raise."""

    def call(self: Any, params: str | dict[str, Any], **_: Any) -> object:
        return tool(**self._verify_json_format_args(params))

    parameters = {"type": "object", "properties": tool.args, "required": tool.parameters.get("required", [])}
    members = {"name": tool.name, "description": tool.desc, "parameters": parameters, "call": call}
    return type("QwenTool", (BaseTool,), members)()


def _judged(name: str, args: object, tools: Mapping[str, Tool]) -> ReadCall:
    """Judge a call by what the package makes of its arguments: JSON, or JSON5, in a fence too."""
    if isinstance(args, str):
        text, args = args, None
        with suppress(ValueError, RecursionError):
            args = json_loads(text)
    return judged(name, args, tools)
