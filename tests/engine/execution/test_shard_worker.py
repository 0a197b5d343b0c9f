"""The loop of a further process, here a thread that is spoken to as the first process does."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from sureact.errors import WorkerLostError
from sureact.execution.shard_orders import Order, PassInputs, Wanted, block_order, head_order
from sureact.execution.shard_worker import serve
from sureact.execution.sharded_model import ShardedModel

INPUTS = PassInputs(
    token_ids=[7, 8],
    positions=[0, 1],
    slots=[0, 1],
    query_lens=[2],
    context_lens=[2],
    block_tables=[[0]],
    picked_rows=[1],
    is_invariant=True,
)


class ScriptedModel:
    """Writes down what it is asked, and fails where it is told to."""

    def __init__(self, failing: str = "") -> None:
        self.asked: list[Any] = []
        self.failing = failing
        self.error: Exception | None = None

    def blocks(self, inputs: PassInputs) -> torch.Tensor:
        self.asked.append(inputs)
        if self.failing == "lost":
            raise WorkerLostError("the others are gone")
        if self.failing == "blocks":
            self.error = RuntimeError("too much")
        return torch.zeros(1, 4)

    def likeliest(self, hidden: torch.Tensor, masks: torch.Tensor) -> None:
        self.asked.append(("likeliest", masks.tolist()))

    def logits(self, hidden: torch.Tensor) -> None:
        self.asked.append("logits")

    def copy_blocks(self, copies: object) -> None:
        if self.failing == "copy":
            raise MemoryError("no room")
        self.asked.append(copies)

    def clear_blocks(self, blocks: object) -> None:
        self.asked.append(blocks)

    def take_error(self) -> Exception | None:
        error, self.error = self.error, None
        return error


def talk(model: ScriptedModel, orders: list[bytes]) -> list[bytes]:
    """Give all orders at once and return the answers, after which the loop ended."""
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    with ours, theirs:
        for order in orders:
            ours.send_bytes(order)
        serve(theirs, cast("ShardedModel", model))
        answers: list[bytes] = []
        while ours.poll():
            answers.append(ours.recv_bytes())
        return answers


END = block_order(Order.END, ())


def test_a_pass_and_its_head_are_one_answer() -> None:
    model = ScriptedModel()
    masks = torch.tensor([[3, -1]], dtype=torch.int32)
    orders = [INPUTS.pack(), head_order(Wanted.LIKELIEST, masks), INPUTS.pack(), head_order(Wanted.LOGITS)]
    assert talk(model, [*orders, INPUTS.pack(), head_order(Wanted.NOTHING), END]) == [b"", b"", b""]
    assert model.asked == [INPUTS, ("likeliest", [[3, -1]]), INPUTS, "logits", INPUTS]


def test_blocks_are_copied_in_order_and_cleared() -> None:
    model = ScriptedModel()
    assert talk(model, [block_order(Order.COPY, [1, 2, 2, 3]), block_order(Order.CLEAR, [4]), END]) == [b"", b""]
    assert model.asked == [[(1, 2), (2, 3)], [4]]


@pytest.mark.parametrize(
    ("failing", "orders", "answer"),
    [
        ("blocks", [INPUTS.pack(), head_order(Wanted.LOGITS)], b"RuntimeError: too much"),
        ("copy", [block_order(Order.COPY, [1, 2])], b"MemoryError: no room"),
    ],
)
def test_what_fails_is_answered_and_the_next_order_runs(failing: str, orders: list[bytes], answer: bytes) -> None:
    model = ScriptedModel(failing)
    assert talk(model, [*orders, block_order(Order.CLEAR, [1]), END]) == [answer, b""]
    assert model.asked[-1] == [1]


def test_without_the_others_the_loop_ends() -> None:
    assert talk(ScriptedModel("lost"), [INPUTS.pack()]) == []


def test_what_is_no_order_ends_it_aloud() -> None:
    with pytest.raises(ValueError, match="99"):
        talk(ScriptedModel(), [block_order(cast("Order", 99), ())])


def test_a_part_that_cannot_be_loaded_is_answered(make_checkpoint: Callable[..., Path]) -> None:
    folder = make_checkpoint("llama")
    (folder / "model.safetensors").write_bytes(b"damaged")
    ours, theirs = socket.socketpair()
    with Connection(ours.detach()) as connection:
        command = [sys.executable, "-m", "sureact.execution.shard_worker", str(theirs.fileno())]
        with theirs, subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(theirs.fileno(),)) as process:
            settings = {
                "folder": str(folder),
                "config": {"model": str(folder)},
                "shard": [1, 2],
                "device": "cpu",
                "num_threads": 1,
                "timeout_s": 5,
            }
            connection.send_bytes(json.dumps(settings).encode())
            answer = json.loads(connection.recv_bytes())
            assert answer["error"].startswith("CheckpointError: ")
            assert process.wait(timeout=20) == 0
