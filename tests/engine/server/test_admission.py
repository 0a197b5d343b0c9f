import asyncio
from typing import Any

import pytest

from sureact.server.admission import Admission, Seat, shutting_down
from sureact.server.api_error import ApiError
from sureact.server.client_key import ClientKey, KeyLimits


def admission(**limits: Any) -> Admission:
    values: dict[str, Any] = {"max_running": 2, "max_queued": 2, "queue_timeout_s": 20, "request_timeout_s": 20}
    return Admission(**{**values, **limits})


def key(name: str = "a", **limits: int) -> ClientKey:
    return ClientKey(name, name.encode() * 32, KeyLimits(**limits))


def refusal(call: Any, *args: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        call(*args)
    return refused.value


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def start(seat: Seat, begun: list[str], name: str, until: asyncio.Event) -> asyncio.Task[None]:
    async def work() -> None:
        await until.wait()

    async def run() -> None:
        try:
            await seat.run(work, begun=lambda: begun.append(name))
        finally:
            seat.leave()

    return asyncio.ensure_future(run())


def test_some_run_some_wait_and_the_rest_is_sent_away() -> None:
    async def main() -> None:
        seats, begun, until = admission(), list[str](), asyncio.Event()
        tasks = [start(seats.enter(None), begun, str(number), until) for number in range(4)]
        await settle()
        assert (begun, seats.num_running, seats.num_waiting) == (["0", "1"], 2, 2)
        refused = refusal(seats.enter, None)
        assert (refused.status, refused.code) == (503, "overloaded")
        assert dict(refused.headers)["retry-after"]
        until.set()
        await asyncio.gather(*tasks)
        assert begun == ["0", "1", "2", "3"]
        assert (seats.num_running, seats.num_entered) == (0, 0)

    asyncio.run(main())


def test_one_that_leaves_while_it_waits_frees_its_place() -> None:
    async def main() -> None:
        seats, begun, until = admission(max_running=1), list[str](), asyncio.Event()
        tasks = [start(seats.enter(None), begun, str(number), until) for number in range(3)]
        await settle()
        tasks[1].cancel()
        await settle()
        assert seats.num_entered == 2
        until.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert begun == ["0", "2"]
        assert seats.num_entered == seats.num_running == 0

    asyncio.run(main())


def test_one_that_is_cancelled_as_its_turn_comes_gives_it_on() -> None:
    async def main() -> None:
        seats, begun, until = admission(max_running=1), list[str](), asyncio.Event()
        first, second, third = (start(seats.enter(None), begun, str(number), until) for number in range(3))
        await settle()
        first.cancel()
        await asyncio.sleep(0)  # the first leaves; the second has its turn and has not woken up
        second.cancel()
        until.set()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert "2" in begun
        assert seats.num_running == 0

    asyncio.run(main())


def test_a_key_has_limits_of_its_own() -> None:
    async def main() -> None:
        seats, begun, until = admission(max_running=3, max_queued=5), list[str](), asyncio.Event()
        narrow = key(max_running=1, max_queued=1)
        tasks = [start(seats.enter(narrow), begun, "a1", until), start(seats.enter(narrow), begun, "a2", until)]
        await settle()
        assert begun == ["a1"]
        refused = refusal(seats.enter, narrow)
        assert (refused.status, refused.code) == (429, "too_many_requests")
        tasks.append(start(seats.enter(key("b")), begun, "b", until))  # others do not wait for it
        await settle()
        assert begun == ["a1", "b"]
        until.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_key_asks_so_often_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("sureact.server.admission.time.monotonic", lambda: now[0])
    seats, limited = admission(), key(max_requests_per_minute=2)
    seats.check(limited)
    now[0] += 10
    seats.check(limited)
    refused = refusal(seats.check, limited)
    assert (refused.status, refused.code, refused.headers) == (429, "rate_limit", (("retry-after", "50"),))
    seats.check(key("b", max_requests_per_minute=2))
    seats.check(None)
    now[0] += 51
    seats.check(limited)


def test_nobody_waits_forever() -> None:
    async def main() -> None:
        seats, until = admission(max_running=1, queue_timeout_s=0.02), asyncio.Event()
        running = start(seats.enter(None), [], "0", until)
        await settle()
        with pytest.raises(ApiError) as late:
            await start(seats.enter(None), [], "1", until)
        assert (late.value.status, late.value.code) == (503, "queue_timeout")
        until.set()
        await running

    asyncio.run(main())


def test_nobody_runs_forever() -> None:
    async def main() -> None:
        seats = admission(request_timeout_s=0.02)
        with pytest.raises(ApiError) as late:
            await start(seats.enter(None), [], "0", asyncio.Event())
        assert (late.value.status, late.value.code) == (504, "request_timeout")
        assert seats.num_running == 0

    asyncio.run(main())


def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    async def fail() -> None:
        raise TimeoutError("mine")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="mine"):
            await admission().enter(None).run(fail, begun=lambda: None)

    asyncio.run(main())


def test_a_server_that_ends_takes_nobody_and_ends_all() -> None:
    async def main() -> None:
        seats, until = admission(max_running=1), asyncio.Event()
        tasks = [start(seats.enter(None), [], str(number), until) for number in range(2)]
        unborn = seats.enter(None)
        await settle()
        seats.is_draining = True
        assert refusal(seats.check, None).code == "shutting_down"
        seats.end_all(shutting_down)
        results = await asyncio.gather(*tasks, start(unborn, [], "2", until), return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["shutting_down"] * 3
        assert seats.num_entered == 0

    asyncio.run(main())


@pytest.mark.parametrize(("limits", "most"), [({"max_running": 5}, 2), ({"max_running": 1}, 1), ({"max_agents": 1}, 1)])
def test_runs_of_agents_leave_places_for_others(limits: dict[str, int], most: int) -> None:
    async def main() -> None:
        seats, begun, until = admission(max_queued=20, **limits), list[str](), asyncio.Event()
        names = [f"agent {number}" for number in range(6)]
        tasks = [start(seats.enter(None, is_agent=True), begun, name, until) for name in names]
        await settle()
        assert begun == names[:most]
        others = limits.get("max_running", 2) - most
        tasks += [start(seats.enter(None), begun, "chat", until) for _ in range(others)]
        await settle()
        assert begun == names[:most] + ["chat"] * others
        until.set()
        await asyncio.gather(*tasks)
        assert begun.count("chat") == others
        assert [name for name in begun if name != "chat"] == names, "the oldest is the next"
        assert (seats.num_running, seats.num_agents, seats.num_entered) == (0, 0, 0)

    asyncio.run(main())


def test_runs_that_wait_leave_entries_for_others() -> None:
    seats = admission(max_running=4, max_queued=1)
    runs = [seats.enter(None, is_agent=True) for _ in range(3)]
    assert refusal(lambda: seats.enter(None, is_agent=True)).code == "overloaded"
    others = [seats.enter(None) for _ in range(2)]
    assert refusal(seats.enter, None).code == "overloaded"
    for seat in runs + others:
        seat.leave()
    assert seats.num_entered == 0
