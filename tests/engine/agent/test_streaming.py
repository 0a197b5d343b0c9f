from collections.abc import Iterator

import pytest

from sureact.agent.scripted_model import ScriptedModel, ScriptedSession
from sureact.agent.streaming import stream_text
from sureact.errors import InternalError, RequestAbortedError
from sureact.outputs import StepOutput, StreamDelta, TokenUsage
from sureact.sampling_params import SamplingParams

ABORTED = StepOutput(
    text="",
    token_ids=(),
    finish_reason="abort",
    usage=TokenUsage(prompt_tokens=0, cached_tokens=0, completion_tokens=0),
)


class Given(ScriptedSession):
    def __init__(self, deltas: list[StreamDelta]) -> None:
        super().__init__(ScriptedModel([]))
        self.deltas = deltas

    def stream(self, params: SamplingParams, constraint: object = None) -> Iterator[StreamDelta]:
        return iter(self.deltas)


def test_pieces_arrive_in_order_and_add_up():
    pieces: list[str] = []
    session = ScriptedModel(["a long enough text\nrest"]).session()
    output = stream_text(session, SamplingParams(stop="\n"), None, pieces.append)
    assert len(pieces) > 1
    assert "".join(pieces) == output.text == "a long enough text"


def test_a_cancelled_generation_raises():
    with pytest.raises(RequestAbortedError):
        stream_text(Given([StreamDelta(text="", output=ABORTED)]), SamplingParams(), None, print)


def test_a_stream_without_result_is_our_fault():
    with pytest.raises(InternalError):
        stream_text(Given([]), SamplingParams(), None, print)
