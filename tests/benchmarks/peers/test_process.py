from collections.abc import Callable

import pytest
from benchmarks.peers.contestant import Contestant
from benchmarks.peers.process import ContestantProcess, PeerError
from benchmarks.peers.work import Decode, JsonText
from tests.benchmarks.peers.fake_contestants import (
    ClumsyContestant,
    Impatient,
    make_broken,
    make_crashing,
    make_missing,
)


def test_work_is_done_elsewhere_and_a_crash_is_a_refusal_and_a_new_start() -> None:
    process = ContestantProcess(ClumsyContestant)
    assert process.do(Decode([1], 1)).seconds == 1.0
    assert process.do(Decode([1], 2)).refusal == "it crashed"
    assert process.do(Decode([1], 1)).refusal is None
    with pytest.raises(PeerError, match="MemoryError: no room"):
        process.do(JsonText([1], "true", 1))
    assert process.do(Decode([1], 1)).refusal is None
    process.close()


def test_work_that_takes_too_long_is_a_refusal() -> None:
    process = ContestantProcess(ClumsyContestant)
    assert process.do(Impatient([1])).refusal == "it takes more than 0.5 s"
    assert process.do(Decode([1], 1)).refusal is None
    process.close()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_missing, "not installed: No module named 'clumsy'"),
        (make_broken, "ValueError: broken file"),
        (make_crashing, "it crashed when it started"),
    ],
)
def test_a_contestant_that_cannot_be_made_says_why(make: Callable[[], Contestant], reason: str) -> None:
    with pytest.raises(PeerError, match=reason):
        ContestantProcess(make)
