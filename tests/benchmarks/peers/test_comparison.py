from dataclasses import dataclass, field
from typing import Any

import pytest
from benchmarks.peers.comparison import Pair, Unit, compare
from benchmarks.peers.work import Decode, Outcome, Work


@dataclass
class FakeWorker:
    """Takes as many seconds per token as its name says; refuses works of the lengths it is told to."""

    name: str
    seconds_per_token: float
    log: list[str] = field(default_factory=list[str])
    refuses: tuple[int, ...] = ()

    def do(self, work: Work) -> Outcome:
        assert isinstance(work, Decode)
        self.log.append(self.name)
        if work.num_tokens in self.refuses:
            return Outcome(0, 0.0, refusal=f"{self.name} does not take {work.num_tokens}")
        return Outcome(work.num_tokens, work.num_tokens * self.seconds_per_token, 1, seconds_of={"prefill": 2.0})


def pairs(*lengths: tuple[int, ...]) -> list[Pair]:
    return [Pair(works, works) for works in ([*(Decode([1], length) for length in pair)] for pair in lengths)]


@pytest.mark.parametrize(
    ("unit", "ours", "theirs", "ratio"),
    [("tokens/s", 2.0, 1.0, 2.0), ("s", 5.0, 10.0, 2.0), ("s/token", 0.5, 1.0, 0.5)],
)
def test_a_ratio_above_one_is_good_for_us_but_of_a_cost(unit: Unit, ours: float, theirs: float, ratio: float) -> None:
    result = compare(FakeWorker("ours", 0.5), FakeWorker("theirs", 1.0), pairs((1,), (10,)), unit)
    assert (result["ours"], result["theirs"], result["unit"], result["ratio"]) == (ours, theirs, unit, ratio)


def test_the_first_pair_only_warms_up() -> None:
    result = compare(FakeWorker("ours", 1), FakeWorker("theirs", 1), pairs((1000,), (10,), (10,)), "s")
    assert result["ours"] == 10
    assert result["ratios"] == [1.0, 1.0]
    our_figures: Any = result["our_figures"]
    assert our_figures["tokens"] == 20
    assert our_figures["unfinished"] == 2
    assert our_figures["seconds_of"] == {"prefill": 4.0}


def test_both_sides_take_turns_and_either_goes_first() -> None:
    log: list[str] = []
    compare(FakeWorker("ours", 1, log), FakeWorker("theirs", 1, log), pairs((1,), (1, 1)), "s")
    assert log == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_what_one_side_refuses_is_left_out_on_both_and_counted() -> None:
    ours, theirs = FakeWorker("ours", 1), FakeWorker("theirs", 1, refuses=(7,))
    result = compare(ours, theirs, pairs((1,), (7, 10), (7,)), "s")
    assert result["ours"] == result["theirs"] == 10
    assert len(result["ratios"]) == 1  # pyright: ignore[reportArgumentType]
    our_figures: Any = result["our_figures"]
    their_figures: Any = result["their_figures"]
    assert our_figures["refused"] == 0
    assert their_figures["refused"] == 2
    assert their_figures["first_refusal"] == "theirs does not take 7"


def test_without_a_peer_ours_is_measured_alone() -> None:
    result = compare(FakeWorker("ours", 0.5), None, pairs((1,), (10,)), "tokens/s")
    assert result["ours"] == 2.0
    assert result["theirs"] is result["ratio"] is result["their_figures"] is None
