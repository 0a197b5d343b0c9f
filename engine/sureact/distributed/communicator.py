"""How the processes of one model exchange tensors. Every one must make the same calls in the same order."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from sureact.errors import WorkerLostError

if TYPE_CHECKING:
    from sureact.distributed.shard import Shard

Store = Any
"""What the processes find each other by. torch's stubs know neither it nor what a backend can do."""

Backend = Any
"""A group of processes and its collectives."""

LOOPBACK = "127.0.0.1"
"""The processes run on one machine and are reached from nowhere else."""


class Communicator:
    """The tensors of one process beside those of the others.

    It has a group of its own: the default group of torch.distributed stays the user's.
    """

    def __init__(self, backend: Backend, shard: Shard) -> None:
        self.shard = shard
        self.num_sums = 0
        """Calls of `sum` so far."""
        self._backend = backend

    def all_gather(self, part: torch.Tensor) -> torch.Tensor:
        """Return what every process gave, `[num_ranks, *part.shape]`, in the order of ranks, new; `part` is no scalar.

        Raises:
            WorkerLostError: a process is gone, or did not answer in time.
        """
        part = part.contiguous()
        gathered = part.new_empty((self.shard.num_ranks, *part.shape))
        try:
            self._backend._allgather_base(gathered.flatten(0, 1), part).wait()
        except RuntimeError as error:
            raise WorkerLostError(f"The processes of the model lost each other: {error}") from error
        return gathered

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """Add up the parts of all processes, in the order of ranks and in float32, and round once to its dtype.

        All parts are fetched and added here instead of left to a reducing collective, whose order depends on its
        algorithm, which depends on the size of the tensor: so a row's bits do not depend on the rows beside it, and are
        the same in every process.
        """
        gathered = self.all_gather(part)
        self.num_sums += 1
        total = gathered[0].float()
        for other in gathered[1:]:
            total += other
        return total.to(part.dtype)

    def close(self) -> None:
        """End the group; its pending calls fail."""
        self._backend.shutdown()


def _distributed() -> Any:
    """Return torch.distributed, untyped: its stubs lack most of what is used here."""
    import torch.distributed

    return torch.distributed


def open_store(timeout_s: float) -> tuple[Store, int]:
    """Open what the processes find each other by; return it and its port. It lives as long as the object."""
    # A store that opens its own socket listens on every network of the machine.
    listening = socket.create_server((LOOPBACK, 0))
    port = listening.getsockname()[1]
    store = _distributed().TCPStore(
        LOOPBACK,
        port,
        None,
        True,
        timedelta(seconds=timeout_s),
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )
    return store, port


def join_store(port: int, timeout_s: float) -> Store:
    """Join the store that the first process opened.

    Raises:
        WorkerLostError: it cannot be reached.
    """
    try:
        return _distributed().TCPStore(
            LOOPBACK, port, None, False, timedelta(seconds=timeout_s), wait_for_workers=False
        )
    except _distributed().DistError as error:
        raise WorkerLostError(f"The first process of the model cannot be reached: {error}") from error


def connect(store: Store, shard: Shard, device: torch.device, timeout_s: float) -> Communicator:
    """Join the group; returns when all processes have.

    Args:
        store: from `open_store` in the first process, from `join_store` in the others.
        shard: says which process this is.
        device: of the tensors: nccl on a GPU, gloo on a CPU.
        timeout_s: longest wait for the others, here and in every later call.

    Raises:
        WorkerLostError: the others did not come in time.
    """
    try:
        backend = _nccl(store, shard, timeout_s) if device.type == "cuda" else _gloo(store, shard, timeout_s)
    except RuntimeError as error:
        raise WorkerLostError(f"The processes of the model did not find each other: {error}") from error
    communicator = Communicator(backend, shard)
    communicator.all_gather(torch.zeros(1, device=device))
    return communicator


def _gloo(store: Store, shard: Shard, timeout_s: float) -> Backend:
    gloo = _distributed().ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=LOOPBACK)]
    options._timeout = timedelta(seconds=timeout_s)
    return gloo(store, shard.rank, shard.num_ranks, options)


def _nccl(store: Store, shard: Shard, timeout_s: float) -> Backend:
    # By default a call that times out ends the whole process, which is the user's own,
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2")
    # and the processes find each other over the network.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    nccl = _distributed().ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = timedelta(seconds=timeout_s)
    return nccl(store, shard.rank, shard.num_ranks, options)
