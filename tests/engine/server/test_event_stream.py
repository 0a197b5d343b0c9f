import asyncio
from typing import Any

import pytest

from sureact.errors import ConfigError, InternalError
from sureact.server.api_error import ApiError
from sureact.server.endpoint import Exchange
from sureact.server.event_stream import EventStream
from sureact.server.request_record import RequestRecord, recorded


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


def run(work: Any, keep_alive_s: float = 10, **options: Any) -> Wire:
    wire = Wire()

    async def main() -> None:
        stream = EventStream(Exchange({}, wire.send), keep_alive_s, **options)
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


def test_an_error_inside_is_noted_for_the_log() -> None:
    metrics: Any = None
    record = RequestRecord("id", "POST", "/v1/responses", metrics)

    async def work(stream: EventStream) -> None:
        await stream.send({})
        raise ConfigError("no")

    with recorded(record):
        run(work)
    assert record.error_code == "invalid_value"


def error_and_failed(error: ApiError) -> list[dict[str, Any]]:
    return [{"type": "error", "code": error.code}, {"type": "failed"}]


def test_a_route_may_tell_errors_by_events_of_its_own_and_end_without_a_mark() -> None:
    async def work(stream: EventStream) -> None:
        await stream.send({})
        raise ConfigError("no")

    wire = run(work, told=error_and_failed, end=b"")
    *_, error, failed, _ = wire.text.split("\n\n")
    assert error == 'event: error\ndata: {"type": "error", "code": "invalid_value"}'
    assert failed == 'event: failed\ndata: {"type": "failed"}'
    assert wire.is_ended


@pytest.mark.parametrize("told", [None, error_and_failed])
def test_an_error_from_outside_ends_a_stream_that_has_begun(told: Any) -> None:
    wire = Wire()

    async def main() -> None:
        exchange = Exchange({}, wire.send)
        stream = EventStream(exchange, 10, told=told)
        assert exchange.fail is None, "the status can still tell it"
        await stream.send({})
        fail: Any = exchange.fail
        await fail(ApiError("too late", code="request_timeout"))

    asyncio.run(main())
    assert '"code": "request_timeout"' in wire.text
    assert wire.text.endswith("data: [DONE]\n\n")
    assert wire.is_ended


def test_a_stream_that_waits_is_gone_on_with_by_another() -> None:
    wire = Wire()

    async def main() -> None:
        exchange = Exchange({}, wire.send)
        async with EventStream(exchange, 0.02).kept_alive():
            await asyncio.sleep(0.1)
        waited = wire.text
        assert waited.startswith(": keep-alive\n\n")
        assert waited == ": keep-alive\n\n" * waited.count(":")
        await asyncio.sleep(0.1)
        assert wire.text == waited, "nobody keeps it alive any more"
        stream = EventStream(exchange, 10, told=error_and_failed, end=b"")

        async def work() -> None:
            fail: Any = exchange.fail
            assert fail.__self__ is stream, "errors from outside are told as this route tells them"
            raise ConfigError("no")

        await stream.run(work())

    asyncio.run(main())
    assert wire.text.endswith('event: failed\ndata: {"type": "failed"}\n\n')
    assert wire.is_ended


def test_a_stream_that_need_not_wait_does_not_begin() -> None:
    wire = Wire()

    async def main() -> None:
        async with EventStream(Exchange({}, wire.send), 0.02).kept_alive():
            pass
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert wire.status is None
