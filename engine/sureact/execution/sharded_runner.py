"""The forward pass over several processes, as the first of them runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

import torch

from sureact.distributed.worker_processes import WorkerProcesses
from sureact.errors import WorkerLostError
from sureact.execution.model_runner import ModelRunner
from sureact.execution.pass_output import PassOutput
from sureact.execution.shard_orders import Order, PassInputs, Wanted, block_order, head_order
from sureact.execution.sharded_model import ShardedModel
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact_kernels.errors import KernelInputError


class ShardedRunner(ModelRunner):
    """Runs a pass in this process and lets the others run theirs.

    What fails in a pass fails that pass. When a process is gone, nothing can be computed any more: every call raises.
    """

    def __init__(self, model: ShardedModel, workers: WorkerProcesses, *, block_size: int, is_strict: bool) -> None:
        self._model = model
        self._workers = workers
        self._block_size = block_size
        self._is_strict = is_strict
        self._lost: WorkerLostError | None = None

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes that each process reads of its part."""
        return self._model.weight_bytes_per_token

    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Run every entry's tokens in one pass; the others learn of it in one message, of the head in another."""
        inputs = PassInputs.of(batch, block_size=self._block_size, is_strict=self._is_strict)
        best: torch.Tensor | None = None
        logits: torch.Tensor | None = None
        with self._together(inputs.pack()):
            wanted, masks = Wanted.NOTHING, None
            try:
                hidden = self._model.blocks(inputs)
                needed = fill_masks()
                wanted, masks = self._wanted(batch, needed)
            finally:  # the others wait to hear of the head, whatever fails here
                if inputs.picked_rows:
                    self._workers.send(head_order(wanted, masks))
            if masks is not None:
                best = self._model.likeliest(hidden, masks)
            elif wanted == Wanted.LOGITS:
                logits = self._model.logits(hidden)
        return PassOutput(logits, None if best is None else _token_ids(best))

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy the contents of cache blocks in every process."""
        if copies:
            with self._together(block_order(Order.COPY, [block for pair in copies for block in pair])):
                self._model.copy_blocks(copies)

    def clear_blocks(self, blocks: Sequence[int]) -> None:
        """Zero blocks in every process; where one is gone, none is read again."""
        if blocks and self._lost is None:
            with self._together(block_order(Order.CLEAR, blocks)):
                self._model.clear_blocks(blocks)

    def close(self) -> None:
        """End the other processes."""
        if self._lost is None:
            self._lost = WorkerLostError("The engine is closed. Open a new one and ask again.")
            with suppress(WorkerLostError):
                self._workers.send(block_order(Order.END, ()))
            self._workers.close()
            self._model.close()

    @contextmanager
    def _together(self, order: bytes) -> Generator[None]:
        """Give an order, run this process's part of it, and wait until the others have run theirs."""
        if self._lost is not None:
            raise self._lost
        failed: Exception | None = None
        try:
            self._workers.send(order)
            try:
                yield
            except WorkerLostError:
                raise
            except Exception as error:  # the others are done with the order all the same
                failed = error
            replies = self._workers.receive()
        except BaseException as error:  # nobody knows how far the others are
            raise self._lose(error) from error
        failed = failed or self._model.take_error()
        if failed is not None:
            self._model.take_error()
            raise failed
        for rank, reply in enumerate(replies, start=1):
            if reply:
                raise ShardError(f"Process {rank} of the model failed: {reply.decode()}")

    def _wanted(self, batch: Batch, needed: torch.Tensor) -> tuple[Wanted, torch.Tensor | None]:
        """Return what the head is asked for, with masks if it is the likeliest tokens."""
        if not batch.num_picks or self._model.has_error:
            return Wanted.NOTHING, None
        needs_logits = any(map(_needs_logits, batch.entries))
        return (Wanted.LOGITS, None) if needs_logits else (Wanted.LIKELIEST, needed)

    def _lose(self, error: BaseException) -> WorkerLostError:
        """Remember why nothing can be computed any more, and end what is left."""
        found = self._workers.find_lost() or error
        self._lost = WorkerLostError(f"{found} The engine can compute nothing any more; open a new one.")
        self._workers.kill()
        self._model.close()
        return self._lost


class ShardError(RuntimeError):
    """Something failed in another process of the model, in this pass alone."""


def _needs_logits(entry: ScheduledRequest) -> bool:
    """Tell whether the likeliest tokens are not enough: a penalty changes logits, a constraint can refuse a token."""
    request = entry.request
    is_plain = request.takes_likeliest and request.repetition_penalty == 1 and request.constraint is None
    return entry.num_picks > 0 and not is_plain


def _token_ids(best: torch.Tensor) -> tuple[int, ...]:
    values, token_ids = best.T.tolist()
    if any(math.isnan(value) for value in values):
        raise KernelInputError("A logit is NaN; the weights or the cache are damaged.")
    assert all(value > -math.inf for value in values), "a text without a constraint can always go on"
    return tuple(map(int, token_ids))
