import gc
import time

import pytest

from sureact.constraints.json_schema import json_schema
from sureact.engine import Engine
from sureact.errors import ConstraintCompileError, PromptTooLongError, RequestAbortedError
from sureact.isolation.engine_process import EngineProcess
from sureact.isolation.messages import End, Failure, pack_failure
from sureact.isolation.process_stream import Mailbox
from sureact.outputs import StepOutput, StreamDelta, TokenUsage
from sureact.sampling_params import SamplingParams

LONG = SamplingParams(max_tokens=900, ignore_eos=True)
OUTPUT = StepOutput(
    text="abc",
    token_ids=(1, 2, 3),
    finish_reason="length",
    usage=TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=3),
)


def num_running(engine: EngineProcess) -> int:
    """Requests that run, once those that were cancelled have had the time to end."""
    deadline = time.monotonic() + 20
    while (stats := engine.stats()).num_running + stats.num_waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    return stats.num_running + stats.num_waiting


def test_pieces_that_came_together_are_taken_together() -> None:
    mailbox = Mailbox()
    first, last = StreamDelta(text="a"), End(StreamDelta(text="c", output=OUTPUT), [])
    for piece in (first, first, last):
        mailbox.put(piece)
    assert mailbox.take() == [first, first, last]
    assert mailbox.end.is_set()


def test_a_failure_ends_a_mailbox() -> None:
    mailbox = Mailbox()
    mailbox.put(pack_failure(ValueError("no")))
    assert mailbox.end.is_set()
    assert isinstance(mailbox.take()[0], Failure)


def test_the_pieces_of_a_stream_are_those_of_its_text(engine_process: EngineProcess, engine: Engine) -> None:
    params = SamplingParams(max_tokens=60, logprobs=2)
    expected = engine.generate("Once", params).completions[0]
    deltas = list(engine_process.stream("Once", params))
    assert "".join(delta.text for delta in deltas) == expected.text
    assert tuple(logprob for delta in deltas for logprob in delta.logprobs) == expected.logprobs
    assert deltas[-1].output is not None
    assert (deltas[-1].output.token_ids, deltas[-1].output.stop_reason) == (expected.token_ids, expected.stop_reason)


def test_closing_a_stream_ends_its_request(engine_process: EngineProcess) -> None:
    stream = engine_process.stream("Once", LONG)
    next(stream)
    stream.close()
    assert engine_process.stats().num_running == 0
    assert list(stream) == []
    with pytest.raises(RequestAbortedError, match="closed before its text ended"):
        stream.read_output()


def test_a_stream_that_is_closed_at_once_begins_nothing_that_stays(engine_process: EngineProcess) -> None:
    for _ in range(5):
        engine_process.stream("Once", LONG, json_schema({"type": "array", "items": {"type": "integer"}})).close()
    assert num_running(engine_process) == 0


def test_a_forgotten_stream_ends_its_request(engine_process: EngineProcess) -> None:
    stream = engine_process.stream("Once", LONG)
    next(stream)
    del stream
    gc.collect()
    assert num_running(engine_process) == 0


def test_what_is_wrong_is_raised_when_a_stream_is_read(engine_process: EngineProcess) -> None:
    stream = engine_process.stream("Once", SamplingParams(max_tokens=50_000))
    with pytest.raises(PromptTooLongError, match="max_tokens"):
        next(stream)
    assert list(stream) == []
    with pytest.raises(ConstraintCompileError):
        next(engine_process.stream("Once", None, json_schema({"type": "nonsense"})))
