"""The peer `dspy`: `dspy.ReAct` as it comes, with its own prompts and adapters, on our engine without `constrain`.

Where ChatAdapter cannot read an answer, dspy asks again by JSONAdapter for JSON, and the engine sees to it that this is
JSON, as other servers with a JSON mode do.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import dspy
from typing_extensions import override

from sureact.agent.tool import FINISH, Tool
from sureact.evaluation.scoring.call_reading import judged
from sureact.evaluation.scoring.foreign_loop import MAX_TURN_TOKENS, ForeignLoop, LoopTask
from sureact.integrations.dspy import lm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.engine import Engine
    from sureact.evaluation.scoring.peer_loop import PeerRun

_LOGGER = "dspy.predict.react"


class DspyLoop(ForeignLoop):
    """Runs tasks by `dspy.ReAct`, greedily and without its caches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    def prompt(self, task: LoopTask) -> str:
        """Return the instructions of its loop, the question and the type of the answer."""
        return json.dumps([_agent(task).react.signature.instructions, task.question, task.output_type])

    @override
    def play(self, task: LoopTask, run: PeerRun) -> None:
        """Run the agent; the tokens are those of all its answers, also of those that dspy gives up on."""
        model = lm(self._engine, cache=False, max_tokens=min(MAX_TURN_TOKENS, self._engine.context_len // 4))
        warnings = _Warnings()
        logger = logging.getLogger(_LOGGER)
        logger.addFilter(warnings)
        try:
            with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
                prediction = _agent(task)(question=task.question)
        finally:
            logger.removeFilter(warnings)
            run.num_tokens = sum(call["usage"]["completion_tokens"] for call in model.history)
        _read(prediction.trajectory, task, run)
        run.outputs = {"answer": prediction.answer}
        is_whole = len(run.calls) >= task.max_iters or any(call.tool_name == FINISH for call in run.calls)
        if not is_whole:
            run.fault = warnings.texts[-1] if warnings.texts else f"The loop ended after {len(run.calls)} calls."


class _Warnings(logging.Filter):
    """Keeps what dspy's loop warns of, which says why it ended early, and off the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        # A traceback may follow, of which the last line says what is wrong.
        first, *others = record.getMessage().strip().splitlines()
        self.texts.append(" ".join([first, *others[-1:]]))
        return False


def _agent(task: LoopTask) -> Any:
    tools = [
        dspy.Tool(tool.func, name=tool.name, desc=tool.desc, arg_desc=_descriptions(tool.args)) for tool in task.tools
    ]
    signature: Any = f"question: str -> answer: {task.output_type}"  # dspy's types name signature classes only
    return dspy.ReAct(signature, tools=[*tools], max_iters=task.max_iters)


def _descriptions(args: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: schema["description"] for name, schema in args.items() if "description" in schema}


def _read(trajectory: Mapping[str, Any], task: LoopTask, run: PeerRun) -> None:
    tools = {tool.name: tool for tool in task.tools} | {FINISH: Tool(_finish, name=FINISH)}
    for key, name in trajectory.items():
        if key.startswith("tool_name_"):
            args = trajectory[key.replace("tool_name_", "tool_args_")]
            run.calls.append(judged(name, args, tools))


def _finish() -> None:
    """End the run."""
