"""A task is run by our agent or by a peer's loop, and judged."""

import json
from typing import Any

import pytest
from typing_extensions import override

from sureact.agent.scripted_model import ScriptedModel
from sureact.evaluation.scoring.call_decoder import FreeDecoder, OwnDecoder
from sureact.evaluation.scoring.call_reading import ReadCall
from sureact.evaluation.scoring.contender import Contender, PeerName
from sureact.evaluation.scoring.foreign_loop import ForeignLoop, LoopTask
from sureact.evaluation.scoring.peer_loop import PeerRun
from sureact.evaluation.tasks.task_case import TaskCase, task_cases
from sureact.evaluation.tasks.task_set import CATEGORIES, all_tasks

CASE = TaskCase(next(task for task in all_tasks() if task.id == "calendar-01"))
STEPS = [
    ("find_events", {"text": "lifeboat drill"}),
    ("weekday_of", {"day": "2025-07-08"}),
    ("finish", {}),
]


def contender(said: list[str], peer: PeerName | None = None) -> Contender:
    decoder: Any = OwnDecoder() if peer is None else FreeDecoder()
    return Contender(lm=ScriptedModel(said), decoder=decoder, prompt_format="fields", quantization="none", peer=peer)


def own_script(answer: str) -> list[str]:
    said: list[str] = []
    for name, args in STEPS:
        said += ["T.\n", f"Action: {name}\nArguments: {json.dumps(args)}\n"]
    return [*said, json.dumps({"reasoning": "r", "answer": answer})]


def peer_script(answer: str) -> list[str]:
    calls = [f" T.\nAction: {name}\nArguments: {json.dumps(args)}\n" for name, args in STEPS]
    return [*calls, json.dumps({"reasoning": "r", "answer": answer})]


def test_all_tasks_are_cases() -> None:
    assert {name: len(cases) for name, cases in task_cases().items()} == dict.fromkeys(CATEGORIES, 12)
    assert (CASE.id, CASE.category) == ("calendar-01", "calendar")


def test_the_prompt_is_that_of_the_run() -> None:
    lm = ScriptedModel(own_script("Tuesday"))
    own = Contender(lm=lm, decoder=OwnDecoder(), prompt_format="fields", quantization="none")
    prompt = CASE.prompt(own)
    CASE.run(own)
    assert "lifeboat drill?" in prompt
    assert lm.sessions[0].text.startswith(prompt)


def test_our_agent_is_judged() -> None:
    right = CASE.run(contender(own_script("tuesday")))
    assert (right.is_right, right.is_valid, right.answer, right.fault) == (True, True, '"tuesday"', "")
    assert right.num_tokens > 0
    wrong = CASE.run(contender(own_script("Monday")))
    assert (wrong.is_right, wrong.is_valid) == (False, True)
    assert wrong.fault == "ended by finish after 3 calls"


def test_a_peer_is_judged_the_same_way() -> None:
    right = CASE.run(contender(peer_script("Tuesday"), "unconstrained"))
    assert (right.is_right, right.is_valid) == (True, True)
    wrong = CASE.run(contender(peer_script("Monday"), "unconstrained"))
    assert (wrong.is_right, wrong.is_valid, wrong.fault) == (False, True, "wrong after 3 calls")


class FixedLoop(ForeignLoop):
    """Ends as it is told to."""

    def __init__(self, run: PeerRun) -> None:
        self.tasks: list[LoopTask] = []
        self._run = run

    @override
    def prompt(self, task: LoopTask) -> str:
        return f"{task.question} {task.output_type}"

    @override
    def play(self, task: LoopTask, run: PeerRun) -> None:
        self.tasks.append(task)
        run.calls, run.outputs, run.num_tokens, run.fault = (
            self._run.calls,
            self._run.outputs,
            self._run.num_tokens,
            self._run.fault,
        )


@pytest.mark.parametrize(
    ("run", "is_right", "is_valid", "fault"),
    [
        (PeerRun(outputs={"answer": "It is on a Tuesday, then."}), True, True, ""),
        (
            PeerRun(outputs={"answer": "Monday"}, calls=[ReadCall("find_events", {})]),
            False,
            True,
            "wrong after 1 calls",
        ),
        (PeerRun(outputs={"answer": "Tuesday"}, calls=[ReadCall("x", {}, "no tool")]), True, False, "no tool"),
        (PeerRun(fault="KeyError: 'a'"), False, False, "KeyError: 'a'"),
        (PeerRun(outputs={"answer": "Tuesday"}, fault="ended early"), True, False, "ended early"),
    ],
)
def test_a_loop_with_prompts_of_its_own_is_judged(run: PeerRun, is_right: bool, is_valid: bool, fault: str) -> None:
    run.num_tokens = 7
    loop = FixedLoop(run)
    peer = Contender(
        lm=ScriptedModel([]), decoder=FreeDecoder(), prompt_format="dspy", quantization="none", peer="dspy", loop=loop
    )
    outcome = CASE.run(peer)
    assert (outcome.is_right, outcome.is_valid, outcome.fault, outcome.num_tokens) == (is_right, is_valid, fault, 7)
    assert CASE.prompt(peer) == "On which weekday is the lifeboat drill? str"
    (task,) = loop.tasks
    assert task.max_iters == 10
    assert [tool.name for tool in task.tools] == list(CASE.task.tools)


def test_a_peer_that_slips_is_not_valid_but_may_be_right() -> None:
    outcome = CASE.run(contender(["What?", *peer_script("Tuesday")], "unconstrained"))
    assert (outcome.is_right, outcome.is_valid) == (True, False)
    assert outcome.fault == "No call can be read in this text."


def test_a_peer_without_an_answer_is_wrong() -> None:
    outcome = CASE.run(contender([*peer_script("x")[:-1], "It is Tuesday."], "unconstrained"))
    assert (outcome.is_right, outcome.is_valid, outcome.answer) == (False, False, "null")
