"""A case is run as a turn of a chat or as a loop, and its calls go to the package's checker by their own names."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.engine.evaluation.bfcl.bfcl_files import write_files

from sureact.agent.prompt_format import call_branches
from sureact.agent.scripted_model import ScriptedModel
from sureact.evaluation.bfcl.bfcl_case import BfclCase, bfcl_cases
from sureact.evaluation.bfcl.functions import FunctionTools
from sureact.evaluation.bfcl.package import data_folder
from sureact.evaluation.scoring.call_decoder import FreeDecoder, OwnDecoder
from sureact.evaluation.scoring.contender import CHAT, Contender, PeerName
from sureact.evaluation.scoring.outcome import Outcome

pytestmark = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed")

OSLO = ("weather_get", {"city": "Oslo"})
GRAZ = ("weather_get", {"city": "Graz"})
ROOT = ("math_root", {"x": 9})
OUTPUTS = json.dumps({"reasoning": "r", "answer": "a"})


@pytest.fixture
def cases(tmp_path: Path) -> dict[str, BfclCase]:
    found = bfcl_cases(write_files(tmp_path / "data"))
    return {case.id: case for of in found.values() for case in of}


def contender(said: list[str], prompt_format: str = CHAT, peer: PeerName | None = None) -> Contender:
    decoder: Any = OwnDecoder() if peer is None else FreeDecoder()
    lm = ScriptedModel(said)
    return Contender(lm=lm, decoder=decoder, prompt_format=prompt_format, quantization="none", peer=peer)


def chat(*calls: tuple[str, dict[str, Any]]) -> list[str]:
    said: list[str] = []
    for name, args in calls:
        body = f'{{"name": "{name}", "arguments": {json.dumps(args)}}}'
        said += ["{" if said else "<tool_call>", f"<tool_call>\n{body}\n</tool_call>"]
    # After the last call neither the model goes on, nor would it if just these calls were asked for.
    return [*said, "", ""] if said else ["Done."]


def loop(*calls: tuple[str, dict[str, Any]]) -> list[str]:
    said: list[str] = []
    for name, args in (*calls, ("finish", {})):
        said += ["T.\n", f"Action: {name}\nArguments: {json.dumps(args)}\n"]
    return [*said, OUTPUTS]


def verdict(outcome: Outcome) -> tuple[bool, bool]:
    return outcome.is_right, outcome.is_valid


@pytest.mark.parametrize("prompt_format", [CHAT, "fields"])
@pytest.mark.parametrize(
    ("name", "calls", "is_right"),
    [
        ("simple_python_0", [OSLO], True),
        ("simple_python_0", [GRAZ], False),
        ("simple_python_0", [], False),
        ("simple_python_0", [OSLO, GRAZ], False),
        ("simple_python_1", [ROOT], True),
        ("multiple_0", [ROOT], True),
        ("multiple_0", [OSLO], False),
        ("parallel_0", [GRAZ, OSLO], True),
        ("parallel_0", [OSLO], False),
        ("irrelevance_0", [], True),
        ("irrelevance_0", [OSLO], False),
    ],
)
def test_calls_are_judged(
    cases: dict[str, BfclCase], prompt_format: str, name: str, calls: list[Any], is_right: bool
) -> None:
    said = chat(*calls) if prompt_format == CHAT else loop(*calls)
    assert verdict(cases[name].run(contender(said, prompt_format))) == (is_right, True)


def test_calls_are_kept_by_the_names_of_the_case(cases: dict[str, BfclCase]) -> None:
    outcome = cases["simple_python_0"].run(contender(chat(GRAZ)))
    assert outcome.answer == '[{"weather.get": {"city": "Graz"}}]'
    assert "Oslo" in outcome.fault
    assert outcome.num_tokens > 0


def test_a_repeated_call_of_a_loop_counts_once(cases: dict[str, BfclCase]) -> None:
    said = loop(OSLO)
    said.insert(3, said[1])  # taken back, and another call decided on
    assert verdict(cases["simple_python_0"].run(contender(said, "fields"))) == (True, True)


def test_a_peer_runs_the_same_cases(cases: dict[str, BfclCase]) -> None:
    case = cases["simple_python_0"]
    text = json.dumps({"name": OSLO[0], "arguments": OSLO[1]})
    assert verdict(case.run(contender(['{"name":', text], peer="unconstrained"))) == (True, True)
    said = [f" T.\nAction: {OSLO[0]}\nArguments: {json.dumps(OSLO[1])}\n"] * 2
    said += [" T.\nAction: finish\nArguments: {}\n", OUTPUTS]
    assert verdict(case.run(contender(said, "fields", "unconstrained"))) == (True, True)


@pytest.mark.parametrize(
    "text", ['{"name": "weather", "arguments": {}}', '{"name": "weather_get", "arguments": {}}', "?"]
)
def test_a_call_that_is_not_valid_is_wrong(cases: dict[str, BfclCase], text: str) -> None:
    outcome = cases["simple_python_0"].run(contender(["<tool_call>", text], peer="unconstrained"))
    assert verdict(outcome) == (False, False)
    assert outcome.fault


@pytest.mark.parametrize("prompt_format", [CHAT, "fields"])
def test_the_prompt_is_that_of_the_run(cases: dict[str, BfclCase], prompt_format: str) -> None:
    case = cases["irrelevance_0"]
    asked = contender(chat() if prompt_format == CHAT else loop(), prompt_format)
    prompt = case.prompt(asked)
    case.run(asked)
    assert "Be brief." in prompt
    assert "Who are you?" in prompt
    assert isinstance(asked.lm, ScriptedModel)
    assert asked.lm.sessions[0].text.startswith(prompt)


def test_the_packages_own_cases_are_all_there_and_can_be_constrained() -> None:
    found = bfcl_cases()
    assert {name: len(of) for name, of in found.items()} == {
        "simple": 400,
        "multiple": 200,
        "parallel": 200,
        "irrelevance": 240,
        "live_simple": 258,
        "live_multiple": 1053,
    }
    for of in found.values():
        for case in of[::20]:
            call_branches(FunctionTools(case.question.functions).tools)
    assert data_folder().is_dir()
