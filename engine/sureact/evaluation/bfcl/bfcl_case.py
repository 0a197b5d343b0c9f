"""Runs a case of the leaderboard: a turn of a chat, or an agent's loop over functions that accept every call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.agent.react import ReAct
from sureact.agent.tool import FINISH
from sureact.evaluation.bfcl.cases import CATEGORIES, BfclQuestion, Category, read_questions
from sureact.evaluation.bfcl.functions import FunctionTools
from sureact.evaluation.bfcl.package import data_folder, load_checker
from sureact.evaluation.scoring.call_reading import ReadCall, judged
from sureact.evaluation.scoring.chat_turn import take_turn, turn_prompt
from sureact.evaluation.scoring.contender import CHAT
from sureact.evaluation.scoring.outcome import Outcome
from sureact.evaluation.scoring.peer_loop import PeerLoop
from sureact.evaluation.scoring.suite import Case

if TYPE_CHECKING:
    from pathlib import Path

    from sureact.evaluation.bfcl.package import Check
    from sureact.evaluation.scoring.contender import Contender

EVALUATION_VERSION = 1
"""To be raised with every change that may give the same prompt another outcome: of the turn or the loop, of grammar,
guards or limits, of how calls are read and judged. Outcomes of lower ones are then run again."""
MAX_ITERS = 9
"""The parallel cases want up to eight calls; then comes `finish`."""
_SIGNATURE = "question: str -> answer: str"
_OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["reasoning", "answer"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class BfclCase(Case):
    """A question of the leaderboard as a case of the suite."""

    question: BfclQuestion
    check: Check

    @property
    def id(self) -> str:
        """The package's."""
        return self.question.id

    @property
    def category(self) -> str:
        """The package's, but `simple` for `simple_python`."""
        return self.question.category

    @property
    def version(self) -> int:
        """`EVALUATION_VERSION`."""
        return EVALUATION_VERSION

    def prompt(self, contender: Contender) -> str:
        """Return the chat's prompt, or the opening of the loop."""
        functions = FunctionTools(self.question.functions)
        if contender.prompt_format == CHAT:
            return turn_prompt(contender.lm, self.question.messages, functions.tools).text
        return self._agent(contender, functions).prompt_format.opening(self._inputs).text

    def run(self, contender: Contender) -> Outcome:
        """Let the contender call, and have the package judge its calls."""
        functions = FunctionTools(self.question.functions)
        if contender.prompt_format == CHAT:
            turn = take_turn(contender.lm, self.question.messages, functions.tools, contender.decoder)
            return self._judged(turn.calls, turn.num_tokens, functions)
        agent = self._agent(contender, functions)
        if contender.peer is None:
            prediction = agent(**self._inputs)
            steps = [step for step in prediction.trajectory.steps if not step.is_repeat]
            calls = [judged(step.tool_name, step.tool_args, agent.tools) for step in steps]
            return self._judged(calls, prediction.usage.completion_tokens, functions)
        run = PeerLoop(agent, contender.decoder, _OUTPUT_SCHEMA).run(self._inputs)
        return self._judged(_without_repeats(run.calls), run.num_tokens, functions)

    @property
    def _inputs(self) -> dict[str, Any]:
        return {"question": "\n\n".join(message["content"] for message in self.question.messages)}

    def _agent(self, contender: Contender, functions: FunctionTools) -> ReAct:
        tools = functions.tools.values()
        return ReAct(_SIGNATURE, tools, lm=contender.lm, max_iters=MAX_ITERS, prompt_format=contender.prompt_format)

    def _judged(self, calls: Sequence[ReadCall], num_tokens: int, functions: FunctionTools) -> Outcome:
        fault = next((call.fault for call in calls if call.fault), "")
        made = [call for call in calls if call.tool_name != FINISH]
        named = [
            {call.tool_name if call.fault else functions.given_name(call.tool_name): dict(call.args)} for call in made
        ]
        mistake = fault or self._mistake(named)
        return Outcome(
            is_right=not mistake,
            is_valid=not fault,
            num_tokens=num_tokens,
            answer=json.dumps(named, ensure_ascii=False),
            fault=mistake,
        )

    def _mistake(self, calls: Sequence[dict[str, Any]]) -> str:
        if not self.question.wants_call:
            return "A call was made, but none is right." if calls else ""
        if not calls:
            return "No call was made."
        return self.check(self.question.functions, calls, self.question.answers, self.question.category)


def bfcl_cases(folder: Path | None = None) -> dict[str, list[BfclCase]]:
    """Return the cases by category.

    Args:
        folder: of the files; None for the package's own.

    Raises:
        ConfigError: the package is not installed, or a file cannot be read.
    """
    check = load_checker()
    files = folder or data_folder()
    categories: tuple[Category, ...] = CATEGORIES
    return {name: [BfclCase(question, check) for question in read_questions(files, name)] for name in categories}


def _without_repeats(calls: Sequence[ReadCall]) -> list[ReadCall]:
    """Leave out calls that were made before, as our loop does not run them again."""
    return [call for index, call in enumerate(calls) if call not in calls[:index]]
