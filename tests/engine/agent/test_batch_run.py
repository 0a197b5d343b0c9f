"""Agents that run at once: the same steps as alone, errors where they belong, and an end when asked for one."""

import io
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import dspy as dspy_package
import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.module import Module
from sureact.agent.module_scope import current_cancellation, track_usage
from sureact.agent.prediction import Example, Prediction
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.token_limits import TokenLimits
from sureact.agent.trace import read_trace
from sureact.engine import Engine
from sureact.errors import ConfigError, OutputTruncatedError, SignatureError

SHORT = TokenLimits(thought=6, call=40, observation=40, outputs=40)
QUESTIONS: list[dict[str, str]] = [{"question": f"What is {n} and {n}?"} for n in range(4)]


@pytest.fixture(scope="module")
def long_engine(make_checkpoint: Callable[..., Path]) -> Iterator[Engine]:
    """A tiny engine whose context holds the prompts of an agent in bytes."""
    folder = make_checkpoint("qwen2", max_position_embeddings=4096)
    with Engine(
        str(folder), quantization="none", dtype="float32", kv_cache_gb=0.05, max_running_requests=3, num_threads=1
    ) as engine:
        yield engine


def step(name: str, **args: object) -> list[str]:
    """The two texts of a step in the format `fields`."""
    return [f" I use {name}.\n", f"Action: {name}\nArguments: {json.dumps(args)}\n"]


def answer(value: int) -> list[str]:
    return [*step("finish"), json.dumps({"reasoning": "known", "answer": value})]


def scripted(script: Sequence[str | BaseException], tools: Sequence[Any] = ()) -> ReAct:
    return ReAct("question -> answer: int", tools, lm=ScriptedModel(script), prompt_format="fields")


def pick(of: bool) -> str:
    """Pick one of two."""
    return "left" if of else "right"


def real(lm: Engine, **options: Any) -> ReAct:
    return ReAct(
        "question -> answer: bool", [pick], lm=lm, prompt_format="fields", max_iters=1, limits=SHORT, **options
    )


def outcome(agent: ReAct, inputs: dict[str, str]) -> Prediction | type[Exception]:
    """What one run gives alone; a random model may not end its outputs."""
    try:
        return agent(question=inputs["question"])
    except OutputTruncatedError as error:
        return type(error)


def test_agents_at_once_take_the_steps_that_each_takes_alone(long_engine: Engine) -> None:
    agent = real(long_engine)
    alone = [outcome(agent, question) for question in QUESTIONS]
    predictions, failed, errors = agent.batch(QUESTIONS, num_threads=3, return_failed_examples=True)
    assert len(predictions) == len(QUESTIONS)
    for before, together in zip(alone, predictions, strict=True):
        assert isinstance(before, Prediction) == (together is not None)
        if isinstance(before, Prediction) and together is not None:
            assert dict(before) == dict(together)
            assert [(s.thought, s.tool_name, s.tool_args, s.observation) for s in before.trajectory.steps] == [
                (s.thought, s.tool_name, s.tool_args, s.observation) for s in together.trajectory.steps
            ]
            assert before.usage.completion_tokens == together.usage.completion_tokens
    assert len(failed) == len(errors) == sum(not isinstance(before, Prediction) for before in alone)
    long_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_predictions_come_in_the_order_of_the_examples() -> None:
    seen: list[str] = []
    agent = scripted([text for value in range(4) for text in answer(value)])

    def note(event: object) -> None:
        seen.append(type(event).__name__)

    agent.on_event = note
    predictions = agent.batch(QUESTIONS[:4], num_threads=1)
    assert [prediction.answer for prediction in predictions] == [0, 1, 2, 3]
    assert seen.count("RunStarted") == seen.count("AnswerReady") == 4


def test_no_examples_give_no_predictions() -> None:
    assert scripted([]).batch([]) == []


def test_an_example_gives_its_inputs_alone() -> None:
    example = Example(question="?", answer=3).with_inputs("question")
    assert scripted(answer(3)).batch([example])[0].answer == 3


def test_options_may_be_given_in_dspys_order() -> None:
    module: Any = scripted(answer(3))
    predictions, failed, errors = module.batch([{"question": "?"}], 2, 0, True, None, True)
    assert ([prediction.answer for prediction in predictions], failed, errors) == ([3], [], [])


def test_an_example_of_dspy_gives_its_inputs_alone_and_comes_back_where_it_failed() -> None:
    example = dspy_package.Example(question="?", answer=3).with_inputs("question")
    assert scripted(answer(3)).batch([example], 1)[0].answer == 3
    _, failed, errors = scripted([]).batch([example], return_failed_examples=True)
    assert failed == [example]
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (dspy_package.Example(question="?"), "Example 0: Inputs have not been set"),
        (5, "Example 0 is 5; it must be a mapping"),
        ({1: 2}, "Example 0 is {1: 2}; it must be a mapping"),
    ],
)
def test_an_example_without_inputs_is_refused(example: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scripted([]).batch([example])


@pytest.mark.parametrize("more", [(0,), (0, 3), (120, 0), (None, 0), (0.0, None)])
def test_no_second_run_of_slow_examples_may_be_asked_for_as_in_dspy(more: tuple[Any, ...]) -> None:
    module: Any = scripted(answer(3))
    assert module.batch(QUESTIONS[:1], 1, 0, False, None, True, *more)[0].answer == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 120}, "timeout is 120; no example is run a second time"),
        ({"straggler_limit": 3}, "straggler_limit is 3; no example"),
        ({"timeout": 120, "straggler_limit": 3}, "timeout is 120 and straggler_limit is 3; no example"),
        ({"timeout": False}, "timeout is False"),
    ],
)
def test_a_second_run_of_slow_examples_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scripted([]).batch(QUESTIONS[:1], **options)


def test_the_first_error_is_raised_with_its_place_and_no_run_begins_after_it() -> None:
    agent = scripted([*answer(0), *step("finish"), "no JSON", *answer(2)])
    with pytest.raises(Exception, match="not allowed") as caught:
        agent.batch(QUESTIONS[:3], num_threads=1)
    assert caught.value.__notes__ == ["This was example 1 of 3; 1 failed."]
    assert isinstance(agent.lm, ScriptedModel)
    assert len(agent.lm.script) == len(answer(2))


def test_allowed_errors_leave_none_in_their_place() -> None:
    agent = scripted([*answer(0), *step("finish"), "no JSON", *answer(2)])
    predictions = agent.batch(QUESTIONS[:3], num_threads=1, max_errors=1)
    assert [prediction and prediction.answer for prediction in predictions] == [0, None, 2]


def test_failed_examples_are_returned_with_their_errors() -> None:
    agent = scripted(answer(7))
    examples = [{"question": "?"}, {"wrong": "?"}]
    predictions, failed, errors = agent.batch(examples, num_threads=1, return_failed_examples=True)
    assert [prediction and prediction.answer for prediction in predictions] == [7, None]
    assert failed == [{"wrong": "?"}]
    assert [type(error) for error in errors] == [SignatureError]


def test_more_errors_than_allowed_are_raised_even_where_failures_are_returned() -> None:
    with pytest.raises(SignatureError):
        scripted([]).batch([{"wrong": "?"}] * 2, num_threads=1, max_errors=1, return_failed_examples=True)


@pytest.mark.parametrize(
    "options", [{name: value} for name in ("num_threads", "max_errors") for value in (-1, 2.5, 1.0, "2", True)]
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    (value,) = options.values()
    with pytest.raises(ConfigError, match=rf"is {value!r}; it must be a whole number, at least"):
        scripted([]).batch(QUESTIONS, **options)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ("abc", "examples is 'abc'; it must be a list of mappings"),
        ({"question": "?"}, "must be a list of mappings"),
        (3, "must be a list of mappings"),
        ([{"question": "?"}, "?"], r"Example 1 is '\?'; it must be a mapping"),
        ([{1: "?"}], "Example 0 is"),
        ([Example(question="?")], "Example 0: This example does not know its inputs"),
    ],
)
def test_examples_that_are_none_are_refused_before_a_run_begins(examples: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scripted([]).batch(examples)


def test_as_many_run_at_a_time_as_the_engine_computes_together(long_engine: Engine) -> None:
    names: set[str] = set()

    def note(event: object) -> None:
        names.add(threading.current_thread().name)

    real(long_engine, on_event=note).batch(QUESTIONS * 2, return_failed_examples=True)
    assert 1 < len(names) <= long_engine.config.max_running_requests


def test_each_run_has_its_own_records_in_a_shared_trace(long_engine: Engine, tmp_path: Path) -> None:
    real(long_engine, trace=tmp_path / "t.jsonl").batch(QUESTIONS, num_threads=3, return_failed_examples=True)
    records = read_trace(tmp_path / "t.jsonl")
    questions = {record["inputs"]["question"] for record in records if record["type"] == "header"}
    assert questions == {question["question"] for question in QUESTIONS}
    assert len({record["run_id"] for record in records}) == len(QUESTIONS)


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """What sends Ctrl-C to the main thread, as a terminal does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(cast("int", threading.main_thread().ident), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_every_run_and_frees_its_memory(
    long_engine: Engine, interrupt: Callable[[], None]
) -> None:
    used = long_engine.stats().kv_blocks_used
    begun = threading.Barrier(3, interrupt, timeout=30)

    def wait_for_others(event: object) -> None:
        if type(event).__name__ == "RunStarted":
            begun.wait()

    long = TokenLimits(thought=300, call=60, observation=40, outputs=60)
    agent = ReAct("question -> answer", [], lm=long_engine, prompt_format="fields", limits=long)
    agent.on_event = wait_for_others
    with pytest.raises(KeyboardInterrupt):
        agent.batch(QUESTIONS, num_threads=3)
    assert long_engine.stats().kv_blocks_used == used
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sureact-batch")]
    long_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("num_interrupts", [1, 2])
def test_an_interrupt_waits_for_what_runs_and_a_second_one_does_not(
    interrupt: Callable[[], None], num_interrupts: int
) -> None:
    begun, is_cancelled, go_on, has_ended = (threading.Event() for _ in range(4))

    class Slow(Module):
        def forward(self, number: int) -> Prediction:
            cast("Cancellation", current_cancellation()).add_callback(is_cancelled.set)
            begun.set()
            go_on.wait(30)
            has_ended.set()
            return Prediction(number=number)

    def interrupt_what_runs() -> None:
        begun.wait(30)
        interrupt()
        is_cancelled.wait(30)
        if num_interrupts == 1:
            go_on.set()
        else:
            interrupt()

    threading.Thread(target=interrupt_what_runs).start()
    with pytest.raises(KeyboardInterrupt):
        Slow().batch([{"number": 1}, {"number": 2}], num_threads=1)
    assert has_ended.is_set() == (num_interrupts == 1)
    go_on.set()


def test_an_interrupt_while_runs_begin_leaves_none_running(monkeypatch: pytest.MonkeyPatch) -> None:
    num_begun = 0

    def start_two(thread: threading.Thread) -> None:
        nonlocal num_begun
        num_begun += thread.name.startswith("sureact-batch")
        if num_begun == 3:
            num_begun += 1
            raise KeyboardInterrupt
        start(thread)

    def wait(event: object) -> None:
        time.sleep(0.1)

    agent = scripted(answer(1) * 4)
    agent.on_event = wait
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(KeyboardInterrupt):
        agent.batch(QUESTIONS, num_threads=4)
    assert num_begun == 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sureact-batch")]


def test_a_callback_that_ends_the_program_ends_the_batch() -> None:
    def leave(event: object) -> None:
        raise SystemExit(3)

    agent = scripted(answer(1))
    agent.on_event = leave
    with pytest.raises(SystemExit):
        agent.batch(QUESTIONS, num_threads=1, return_failed_examples=True)


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    scripted(answer(1)).batch(QUESTIONS[:1])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    scripted(answer(1)).batch(QUESTIONS[:1], disable_progress_bar=True)
    assert sys.stderr.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]
    scripted(answer(1)).batch(QUESTIONS[:1])
    assert "1/1" in sys.stderr.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("provide_traceback", [False, True])
def test_failures_are_logged_and_their_tracebacks_if_asked(
    caplog: pytest.LogCaptureFixture, provide_traceback: bool
) -> None:
    scripted([]).batch([{"wrong": "?"}], max_errors=1, provide_traceback=provide_traceback)
    assert "Example 0 failed: SignatureError: Inputs given: `wrong`" in caplog.text
    assert ("Traceback" in caplog.text) == provide_traceback
    with pytest.raises(ConfigError, match="provide_traceback is 1; it must be True or False"):
        scripted([]).batch([], provide_traceback=1)  # pyright: ignore[reportArgumentType]


def test_the_tokens_of_a_batch_count_towards_the_block_around_it() -> None:
    with track_usage() as usage:
        predictions = scripted([*answer(1), *answer(2)]).batch(QUESTIONS[:2], num_threads=1)
    assert usage.total_tokens()["scripted"]["num_generations"] == 6
    assert [prediction.get_lm_usage()["scripted"]["num_generations"] for prediction in predictions] == [3, 3]


def test_an_example_may_have_a_field_called_inputs() -> None:
    example = Example(question="?", inputs="x").with_inputs("question")
    assert scripted(answer(3)).batch([example])[0].answer == 3


def test_any_module_runs_on_many_examples() -> None:
    class Echo(Module):
        def forward(self, q: str) -> Prediction:
            if q == "bad":
                raise SignatureError(q)
            return Prediction(a=q)

    examples = [Example(q=q, a="?").with_inputs("q") for q in ("1", "bad", "2")]
    predictions, failed, errors = Echo().batch(examples, num_threads=2, return_failed_examples=True)
    assert [prediction and prediction.a for prediction in predictions] == ["1", None, "2"]
    assert failed == [examples[1]]
    assert [str(error) for error in errors] == ["bad"]
