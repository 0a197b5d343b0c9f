"""Runs a task: our agent, or a peer's loop with the same prompt, tools and limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.agent.react import ReAct
from sureact.evaluation.scoring.call_reading import judged
from sureact.evaluation.scoring.outcome import Outcome
from sureact.evaluation.scoring.peer_loop import PeerLoop
from sureact.evaluation.scoring.suite import Case
from sureact.evaluation.tasks.task_set import CATEGORIES, Task, all_tasks
from sureact.evaluation.tasks.tools import tools_named

if TYPE_CHECKING:
    from sureact.evaluation.scoring.contender import Contender

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

    def prompt(self, contender: Contender) -> str:
        """Return the opening of the run."""
        return self._agent(contender).prompt_format.opening(self._inputs).text

    def run(self, contender: Contender) -> Outcome:
        """Run the agent."""
        agent = self._agent(contender)
        return self._run_own(agent) if contender.peer is None else self._run_peer(agent, contender)

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

    def _run_peer(self, agent: ReAct, contender: Contender) -> Outcome:
        run = PeerLoop(agent, contender.decoder, self._output_schema()).run(self._inputs)
        answer = (run.outputs or {}).get("answer")
        faults = [call.fault for call in run.calls if call.fault]
        is_right = self.task.judge.is_right(answer)
        return Outcome(
            is_right=is_right,
            is_valid=not faults and answer is not None,
            num_tokens=run.num_tokens,
            answer=json.dumps(answer, ensure_ascii=False),
            fault=faults[0] if faults else "" if is_right else f"wrong after {len(run.calls)} calls",
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
