"""What the processes of a model exchange: here threads that each have a rank."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Protocol

import psutil
import pytest
import torch

from sureact.distributed.communicator import Communicator, join_store
from sureact.errors import WorkerLostError


class OnTwoRanks(Protocol):
    """Runs work as each of two ranks."""

    def __call__(self, work: Callable[[Communicator], Any], timeout_s: float = 20.0) -> list[Any]: ...


def part_of(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(rank)).to(dtype)


def test_what_is_gathered_stands_in_the_order_of_ranks_everywhere(on_two_ranks: OnTwoRanks) -> None:
    gathered = on_two_ranks(lambda ranks: ranks.all_gather(part_of(ranks.shard.rank)))
    expected = torch.stack([part_of(0), part_of(1)])
    assert all(torch.equal(found, expected) for found in gathered)


def test_what_is_not_contiguous_is_gathered_too(on_two_ranks: OnTwoRanks) -> None:
    gathered = on_two_ranks(lambda ranks: ranks.all_gather(part_of(ranks.shard.rank).T))
    assert torch.equal(gathered[0][1], part_of(1).T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parts_add_up_in_float32_and_are_rounded_once(on_two_ranks: OnTwoRanks, dtype: torch.dtype) -> None:
    sums = on_two_ranks(lambda ranks: ranks.sum(part_of(ranks.shard.rank, dtype)))
    expected = (part_of(0, dtype).float() + part_of(1, dtype).float()).to(dtype)
    assert all(torch.equal(found, expected) for found in sums)


def test_a_row_has_the_same_sum_alone_and_beside_others(on_two_ranks: OnTwoRanks) -> None:
    together, alone = on_two_ranks(
        lambda ranks: (ranks.sum(part_of(ranks.shard.rank)), ranks.sum(part_of(ranks.shard.rank)[2:3]))
    )[0]
    assert torch.equal(together[2:3], alone)


def test_sums_are_counted(on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> int:
        for _ in range(3):
            ranks.sum(torch.zeros(1))
        return ranks.num_sums

    assert on_two_ranks(work) == [3, 3]


def test_waiting_for_a_rank_that_does_not_come_ends(on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> object:
        return ranks.all_gather(torch.zeros(1)) if ranks.shard.rank == 0 else ranks

    waiting, _ = on_two_ranks(work, 0.5)
    assert isinstance(waiting, WorkerLostError)


def test_a_group_that_is_closed_fails_those_who_wait(on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> object:
        if ranks.shard.rank == 1:
            ranks.close()
            return None
        return ranks.sum(torch.zeros(1))

    waiting, _ = on_two_ranks(work)
    assert isinstance(waiting, WorkerLostError)


def test_nothing_listens_beyond_this_machine(on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> list[str]:
        ranks.sum(torch.zeros(1))
        connections = psutil.Process().net_connections()
        return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]

    for addresses in on_two_ranks(work):
        assert addresses
        assert all(ip_address(address).is_loopback for address in addresses)


def test_a_first_process_that_is_gone_is_named() -> None:
    with pytest.raises(WorkerLostError, match="first process of the model cannot be reached"):
        join_store(1, 0.5)
