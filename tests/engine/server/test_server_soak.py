"""Clients by the hundred that ask, read, or leave in the middle: none is lost or stuck, nothing grows or runs on."""

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine

MOST_GROWTH_BYTES = 24 << 20
"""What the allocators may keep of a peak; a lost block of the cache alone has 130 kB."""
STUCK_AFTER_S = 120
"""Many times what any request waits and runs."""


def body_of(draws: random.Random) -> tuple[str, dict[str, Any]]:
    """Draw a short request."""
    limits = {"max_tokens": draws.randrange(1, 6), "stream": draws.random() < 0.5}
    if draws.random() < 0.5:
        return "/v1/completions", {"prompt": f"hi {draws.randrange(50)}", **limits}
    content = f"hello {draws.randrange(50)}"
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **limits}


async def ask(port: int, draws: random.Random) -> str:
    """Ask once, and read the answer or leave; return what came of it."""
    path, body = body_of(draws)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        request = head.encode() + b"\r\nConnection: close\r\n\r\n" + data
        leaves = draws.random() < 0.3
        if leaves and draws.random() < 0.3:
            request = request[: draws.randrange(len(request))]
        writer.write(request)
        await writer.drain()
        if leaves:
            await asyncio.sleep(draws.random() * 0.2)
            if draws.random() < 0.5:
                writer.transport.abort()
            return "left"
        answer = await asyncio.wait_for(reader.read(), STUCK_AFTER_S)
    finally:
        writer.close()
    is_whole = answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n" if body["stream"] else b"}")
    return "answered" if answer.startswith(b"HTTP/1.1 200") and is_whole else repr(answer[:300])


async def ask_all(port: int, num_clients: int, num_requests: int, after: Callable[[int], None]) -> dict[str, int]:
    """Ask from many clients at once; return how often each thing came of it."""
    results: dict[str, int] = {}
    numbers = iter(range(num_requests))

    async def client() -> None:
        for number in numbers:
            result = await ask(port, random.Random(number))
            results[result] = results.get(result, 0) + 1
            after(number)

    await asyncio.gather(*(client() for _ in range(num_clients)))
    return results


def run_soak(server: RunningServer, engine: ScriptedEngine, num_clients: int, num_requests: int) -> int:
    """Ask, check that all is over a second after the last, and return by how many bytes the process grew."""
    process, sizes = psutil.Process(), list[int]()

    def measure(number: int) -> None:
        if number == num_requests // 3:
            sizes.append(process.memory_info().rss)

    results = asyncio.run(ask_all(server.port, num_clients, num_requests, measure))
    end = time.monotonic()
    while engine.stats().num_running + engine.stats().num_waiting + server.serving.admission.num_entered:
        assert time.monotonic() < end + 1, "something runs on"
        time.sleep(0.01)
    assert set(results) == {"answered", "left"}, results
    assert sum(results.values()) == num_requests
    gc.collect()
    return process.memory_info().rss - sizes[0]


def test_clients_that_come_and_go_leave_nothing(
    run_server: Callable[..., RunningServer], engine: ScriptedEngine
) -> None:
    run_soak(run_server(log_requests=False), engine, num_clients=40, num_requests=120)


@pytest.mark.slow
def test_five_thousand_requests_leave_nothing(run_server: Callable[..., RunningServer], engine: ScriptedEngine) -> None:
    server = run_server(log_requests=False)
    assert run_soak(server, engine, num_clients=200, num_requests=5000) < MOST_GROWTH_BYTES
