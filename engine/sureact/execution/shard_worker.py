"""A further process of a model: `python -m sureact.execution.shard_worker FD`, started by the first one."""

from __future__ import annotations

import json
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from sureact.config import EngineConfig
from sureact.distributed.communicator import connect, join_store
from sureact.distributed.shard import Shard
from sureact.distributed.worker_processes import end_with_standard_input
from sureact.errors import SureactError, WorkerLostError
from sureact.execution.cpu_runtime import keep_freed_buffers
from sureact.execution.load_shard_model import load_part
from sureact.execution.shard_orders import Order, PassInputs, Wanted, read_head_order, read_numbers
from sureact.execution.sharded_model import ShardedModel


def main() -> None:
    """Load a part, and run its passes until told to end."""
    threading.Thread(target=end_with_standard_input, name="sureact-lifeline", daemon=True).start()
    with Connection(int(sys.argv[1])) as connection:
        try:
            model = _load(connection)
        except (SureactError, RuntimeError, OSError) as error:
            _answer(connection, error=f"{type(error).__name__}: {error}")
            return
        serve(connection, model)
        model.close()


def serve(connection: Connection, model: ShardedModel) -> None:
    """Run what the first process orders; answer each order with an error's text, which is empty if all went well.

    What is neither an order nor its failure ends this process: the first one misses it at once, and could not know how
    far it is.
    """
    try:
        while True:
            order, numbers = read_numbers(connection.recv_bytes())
            if order == Order.END:
                return
            if order == Order.BLOCKS:
                failed = _run_pass(PassInputs.unpack(numbers), connection, model)
            else:
                failed = _change_blocks(order, numbers, model)
            connection.send_bytes(b"" if failed is None else f"{type(failed).__name__}: {failed}".encode())
    except (WorkerLostError, EOFError, OSError):
        return  # the first process is gone, or knows


def _run_pass(inputs: PassInputs, connection: Connection, model: ShardedModel) -> Exception | None:
    hidden = model.blocks(inputs)
    if inputs.picked_rows:
        wanted, masks = read_head_order(connection.recv_bytes(), len(inputs.picked_rows))
        if masks is not None:
            model.likeliest(hidden, masks)
        elif wanted == Wanted.LOGITS:
            model.logits(hidden)
    return model.take_error()


def _change_blocks(order: Order, numbers: list[int], model: ShardedModel) -> Exception | None:
    try:
        if order == Order.COPY:
            model.copy_blocks(list(zip(numbers[::2], numbers[1::2], strict=True)))
        else:
            model.clear_blocks(numbers)
    except Exception as error:  # lack of memory, say, which a request is told
        return error
    return None


def _load(connection: Connection) -> ShardedModel:
    settings = json.loads(connection.recv_bytes())
    shard, device = Shard(*settings["shard"]), torch.device(settings["device"])
    torch.set_num_threads(settings["num_threads"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        keep_freed_buffers()
    part = load_part(Path(settings["folder"]), EngineConfig(**settings["config"]), shard, device)
    _answer(connection, num_blocks=part.cache_size.num_blocks, max_model_len=part.cache_size.max_model_len)
    agreed = json.loads(connection.recv_bytes())
    timeout_s = settings["timeout_s"]
    communicator = connect(join_store(agreed["port"], timeout_s), shard, device, timeout_s)
    model = part.assemble(agreed["num_blocks"], agreed["max_model_len"], communicator)
    _answer(connection)
    return model


def _answer(connection: Connection, **fields: object) -> None:
    connection.send_bytes(json.dumps(fields).encode())


if __name__ == "__main__":
    main()
