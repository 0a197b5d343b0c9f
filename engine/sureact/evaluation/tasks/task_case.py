"""Runs a task: our agent, or a peer's loop with the same prompt, tools and limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.agent.react import ReAct
from sureact.evaluation.scoring.call_reading import judged
from sureact.evaluation.scoring.foreign_loop import LoopTask
from sureact.evaluation.scoring.outcome import Outcome
from sureact.evaluation.scoring.peer_loop import PeerLoop
from sureact.evaluation.scoring.suite import Case
from sureact.evaluation.tasks.task_set import CATEGORIES, Task, all_tasks
from sureact.evaluation.tasks.tools import tools_named

if TYPE_CHECKING:
    from sureact.evaluation.scoring.contender import Contender
    from sureact.evaluation.scoring.peer_loop import PeerRun

EVALUATION_VERSION = 2
"""To be raised with every change that may give the same prompt another outcome: of the loops, of grammar, guards or
limits, of the tools and their data, of how answers are judged. Outcomes of lower ones are then run again."""
MAX_ITERS = 10
"""Three times the calls of the longest reference, and finish."""


@dataclass(frozen=True)
class TaskCase(Case):
    """A task as a case of the suite."""

    task: Task

    @property
    def id(self) -> str:
        """The task's."""
        return self.task.id

    @property
    def category(self) -> str:
        """The task's."""
        return self.task.category

    @property
    def version(self) -> int:
        """`EVALUATION_VERSION`."""
        return EVALUATION_VERSION

    def prompt(self, contender: Contender) -> str:
        """Return the opening of the run, or what a peer with prompts of its own makes them of."""
        if contender.loop is not None:
            return contender.loop.prompt(self._loop_task())
        return self._agent(contender).prompt_format.opening(self._inputs).text

    def run(self, contender: Contender) -> Outcome:
        """Run the agent, or the peer's loop."""
        if contender.loop is not None:
            return self._judged(contender.loop.run(self._loop_task()), is_prose=True)
        agent = self._agent(contender)
        if contender.peer is None:
            return self._run_own(agent)
        return self._judged(PeerLoop(agent, contender.decoder, self._output_schema()).run(self._inputs))

    @property
    def _inputs(self) -> dict[str, Any]:
        return {"question": self.task.question}

    def _agent(self, contender: Contender) -> ReAct:
        return ReAct(
            self.task.signature,
            tools_named(self.task.tools),
            lm=contender.lm,
            max_iters=MAX_ITERS,
            prompt_format=contender.prompt_format,
        )

    def _run_own(self, agent: ReAct) -> Outcome:
        prediction = agent(**self._inputs)
        calls = [judged(step.tool_name, step.tool_args, agent.tools) for step in prediction.trajectory.steps]
        is_right = self.task.judge.is_right(prediction.answer)
        return Outcome(
            is_right=is_right,
            is_valid=not any(call.fault for call in calls),
            num_tokens=prediction.usage.completion_tokens,
            answer=json.dumps(prediction.answer, ensure_ascii=False),
            fault="" if is_right else f"ended by {prediction.termination_reason} after {len(calls)} calls",
        )

    def _loop_task(self) -> LoopTask:
        return LoopTask(
            question=self.task.question,
            output_type=self.task.judge.output_type,
            tools=tools_named(self.task.tools),
            max_iters=MAX_ITERS,
        )

    def _judged(self, run: PeerRun, *, is_prose: bool = False) -> Outcome:
        """Judge a peer's run.

        Args:
            run: what came of it.
            is_prose: whether an answer is right that holds what was asked for among other words, since the peer's own
                prompts do not ask for it alone.
        """
        answer = (run.outputs or {}).get("answer")
        fault = run.fault or next((call.fault for call in run.calls if call.fault), "")
        is_right = self.task.judge.is_right(answer) or (is_prose and self.task.judge.is_in(str(answer)))
        return Outcome(
            is_right=is_right,
            is_valid=not fault and answer is not None,
            num_tokens=run.num_tokens,
            answer=json.dumps(answer, ensure_ascii=False),
            fault=fault or ("" if is_right else f"wrong after {len(run.calls)} calls"),
        )

    def _output_schema(self) -> dict[str, Any]:
        """Return what a peer's grammar holds of the outputs: the fields of ours, in the same order.

        The reasoning is not bounded: outlines would take minutes and gigabytes for a bound of hundreds of characters.
        """
        answer = "number" if self.task.judge.kind == "number" else "string"
        return {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, "answer": {"type": answer}},
            "required": ["reasoning", "answer"],
            "additionalProperties": False,
        }


def task_cases() -> dict[str, list[TaskCase]]:
    """Return the tasks by category."""
    return {name: [TaskCase(task) for task in all_tasks() if task.category == name] for name in CATEGORIES}
