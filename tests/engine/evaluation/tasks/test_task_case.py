"""A task is run by our agent or by a peer's loop, and judged."""

import json
from typing import Any

from sureact.agent.scripted_model import ScriptedModel
from sureact.evaluation.scoring.call_decoder import FreeDecoder, OwnDecoder
from sureact.evaluation.scoring.contender import Contender, PeerName
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


def test_a_peer_that_slips_is_not_valid_but_may_be_right() -> None:
    outcome = CASE.run(contender(["What?", *peer_script("Tuesday")], "unconstrained"))
    assert (outcome.is_right, outcome.is_valid) == (True, False)
    assert outcome.fault == "No call can be read in this text."


def test_a_peer_without_an_answer_is_wrong() -> None:
    outcome = CASE.run(contender([*peer_script("x")[:-1], "It is Tuesday."], "unconstrained"))
    assert (outcome.is_right, outcome.is_valid, outcome.answer) == (False, False, "null")
