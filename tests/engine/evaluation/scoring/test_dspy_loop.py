"""dspy's own agent: on answers that are given, and on a tiny model that never finds its fields."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

from sureact.agent.tool import Tool
from sureact.engine import Engine
from sureact.evaluation.scoring import dspy_loop
from sureact.evaluation.scoring.dspy_loop import DspyLoop
from sureact.evaluation.scoring.foreign_loop import LoopTask
from sureact.evaluation.scoring.peer_loop import PeerRun


def double(number: int) -> int:
    """Double a number.

    Args:
        number: any
    """
    return 2 * number


TASK = LoopTask(question="What is twice 2?", output_type="float", tools=[Tool(double)], max_iters=2)
FINISHED = {"next_thought": "Done.", "next_tool_name": "finish", "next_tool_args": {}}
ANSWER = {"reasoning": "Twice 2.", "answer": "4"}


@pytest.fixture(scope="module")
def roomy_engine(make_checkpoint: Callable[..., Path]) -> Iterator[Engine]:
    """A tiny random model whose context holds dspy's prompts, which are bytes."""
    folder = make_checkpoint("qwen2", max_position_embeddings=16384)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.1) as engine:
        yield engine


def call(name: str, args: Any) -> dict[str, Any]:
    return {"next_thought": "I double.", "next_tool_name": name, "next_tool_args": args}


def play(monkeypatch: pytest.MonkeyPatch, engine: Engine, *said: dict[str, Any]) -> tuple[PeerRun, Any]:
    model: Any = DummyLM([*said])

    def given(engine: Engine, **options: Any) -> Any:
        assert options == {"cache": False, "max_tokens": 256}
        return model

    monkeypatch.setattr(dspy_loop, "lm", given)
    return DspyLoop(engine).run(TASK), model


def test_calls_are_read_from_the_trajectory_and_the_answer_has_its_type(
    monkeypatch: pytest.MonkeyPatch, tiny_engine: Engine
) -> None:
    run, model = play(monkeypatch, tiny_engine, call("double", {"number": 2}), FINISHED, ANSWER)
    assert [(call.tool_name, call.args, call.fault) for call in run.calls] == [
        ("double", {"number": 2}, ""),
        ("finish", {}, ""),
    ]
    assert (run.outputs, run.fault) == ({"answer": 4.0}, "")
    asked = model.history[0]["messages"][0]["content"]
    assert "(1) double, whose description is <desc>Double a number.</desc>" in asked
    assert "'description': 'any'" in asked
    assert "[[ ## observation_0 ## ]]\n4" in model.history[1]["messages"][-1]["content"]


def test_slips_are_told_by_dspy_and_noted(monkeypatch: pytest.MonkeyPatch, tiny_engine: Engine) -> None:
    run, model = play(
        monkeypatch, tiny_engine, call("double", {"number": "two"}), call("finish", {"answer": 4}), ANSWER
    )
    assert [bool(call.fault) for call in run.calls] == [True, True]
    assert "Execution error in double" in model.history[1]["messages"][-1]["content"]
    assert run.outputs == {"answer": 4.0}


def test_the_limit_of_steps_is_no_fault(monkeypatch: pytest.MonkeyPatch, tiny_engine: Engine) -> None:
    run, _ = play(monkeypatch, tiny_engine, *[call("double", {"number": 2})] * 2, ANSWER)
    assert (len(run.calls), run.outputs, run.fault) == (2, {"answer": 4.0}, "")


def test_a_loop_that_ends_early_says_why_and_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, tiny_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError("no tool")

    def answer(*_: Any, **__: Any) -> Any:
        return dspy.Prediction(answer=4.0)

    monkeypatch.setattr(dspy.Predict, "forward", refuse)
    monkeypatch.setattr(dspy.ChainOfThought, "forward", answer)
    logging.getLogger("dspy").propagate = True
    run, _ = play(monkeypatch, tiny_engine)
    assert run.fault.startswith("Ending the trajectory: Agent failed to select a valid tool: ")
    assert run.fault.endswith("ValueError: no tool")
    assert str(Path(dspy.__file__).parent) not in run.fault
    assert (run.calls, run.outputs, caplog.text) == ([], {"answer": 4.0}, "")
    assert logging.getLogger("dspy.predict.react").filters == []


def test_a_parse_error_that_ends_dspy_ends_the_run_only(roomy_engine: Engine) -> None:
    """A random model finds no field, and JSON only because the engine holds it to it."""
    run = DspyLoop(roomy_engine).run(TASK)
    assert run.fault.partition(":")[0] in ("AdapterParseError", "AnswerTruncatedError")
    assert run.outputs is None
    assert run.num_tokens > 0


def test_a_mistake_of_ours_is_not_held_against_a_peer() -> None:
    engine: Any = object()
    with pytest.raises(AttributeError):
        DspyLoop(engine).run(TASK)


def test_the_prompt_changes_with_what_goes_into_it(tiny_engine: Engine) -> None:
    prompt = DspyLoop(tiny_engine).prompt(TASK)
    assert "What is twice 2?" in prompt
    assert "Double a number." in prompt
    assert "float" in prompt


def test_the_model_is_asked_again_for_the_same_task(monkeypatch: pytest.MonkeyPatch, roomy_engine: Engine) -> None:
    monkeypatch.setattr(dspy_loop, "MAX_TURN_TOKENS", 8)
    runs = [DspyLoop(roomy_engine).run(TASK) for _ in range(2)]
    assert runs[0].num_tokens == runs[1].num_tokens > 0
