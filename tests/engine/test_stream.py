import pytest

from sureact.engine import Engine
from sureact.errors import RequestAbortedError
from sureact.sampling_params import SamplingParams
from sureact.stream import last_output

LONG = SamplingParams(max_tokens=400, ignore_eos=True)


def test_a_closed_stream_ends_and_may_be_closed_again(tiny_engine: Engine) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    stream.close()
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(RequestAbortedError, match="closed before"):
        last_output(stream)


def test_leaving_the_block_cancels(tiny_engine: Engine) -> None:
    used = tiny_engine.stats().kv_blocks_used
    with tiny_engine.stream("abc", LONG) as stream:
        next(stream)
    assert tiny_engine.stats().kv_blocks_used == used


def test_the_last_delta_carries_the_whole_text(tiny_engine: Engine) -> None:
    deltas = list(tiny_engine.stream("abc", SamplingParams(max_tokens=9, ignore_eos=True)))
    assert [delta.output is not None for delta in deltas] == [False] * 8 + [True]
