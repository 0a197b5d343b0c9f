import asyncio
from typing import Any

import pytest

from sureact.errors import ConfigError, InternalError
from sureact.server.endpoint import Exchange
from sureact.server.event_stream import EventStream


class Wire:
    """Records what is sent."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.text = ""
        self.is_ended = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.text += message["body"].decode()
            self.is_ended = not message["more_body"]


def run(work: Any, keep_alive_s: float = 10) -> Wire:
    wire = Wire()

    async def main() -> None:
        stream = EventStream(Exchange({}, wire.send, {}), keep_alive_s)
        await stream.run(work(stream))

    asyncio.run(main())
    return wire


def test_events_are_lines_of_json_and_the_end_is_told() -> None:
    async def work(stream: EventStream) -> None:
        await stream.send({"a": "é\n"})
        await stream.send({}, name="done")

    wire = run(work)
    assert wire.text == 'data: {"a": "é\\n"}\n\nevent: done\ndata: {}\n\ndata: [DONE]\n\n'
    assert (wire.status, wire.is_ended) == (200, True)


def test_an_error_before_the_first_event_is_no_event() -> None:
    async def work(stream: EventStream) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        run(work)


def test_an_error_inside_is_an_event() -> None:
    async def work(stream: EventStream) -> None:
        await stream.send({})
        raise InternalError("/opt/secret")

    wire = run(work)
    assert '"code": "internal_error"' in wire.text
    assert "/opt" not in wire.text
    assert wire.text.endswith("data: [DONE]\n\n")


def test_silence_is_broken_by_comments_even_before_the_first_event() -> None:
    async def work(stream: EventStream) -> None:
        await asyncio.sleep(0.2)
        await stream.send({})

    assert run(work, keep_alive_s=0.02).text.startswith(": keep-alive\n\n")
