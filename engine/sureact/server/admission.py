"""Who may run now, who waits, and who is sent away: for the server, and for each key."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal

from sureact.server.api_error import RETRY_AFTER_S, ApiError, unavailable

if TYPE_CHECKING:
    from sureact.server.client_key import ClientKey

SEAT = "sureact.seat"
"""Where a request's scope holds its seat, if it needs one."""

_MINUTE_S = 60.0


@dataclass(slots=True)
class _KeyUse:
    """What a key has asked for."""

    num_running: int = 0
    num_entered: int = 0
    """Those that run and those that wait."""
    asked_at: deque[float] = field(default_factory=deque[float])
    """When it asked within the last minute."""


class Admission:
    """Seats for requests that compute. The oldest that may run is the next."""

    def __init__(
        self,
        *,
        max_running: int,
        max_queued: int,
        queue_timeout_s: float,
        request_timeout_s: float | None,
        max_agents: int | None = None,
    ) -> None:
        """Take the limits of the server.

        Args:
            max_running: requests that run at once.
            max_queued: requests that wait at once, for their turn or for their body.
            queue_timeout_s: longest wait for a turn, in seconds.
            request_timeout_s: longest run, in seconds; None is no limit.
            max_agents: of those that run, how many may be runs of agents; None for half of them, at least one. The
                other places are not waited for by runs either.
        """
        self._max_running = max_running
        self._max_agents = min(max(max_running // 2, 1) if max_agents is None else max_agents, max_running)
        self._max_entered = max_running + max_queued
        self.queue_timeout_s = queue_timeout_s
        self.request_timeout_s = request_timeout_s
        self._seats: dict[Seat, None] = {}
        self._waiting: dict[Seat, asyncio.Future[None]] = {}
        self._uses: dict[str | None, _KeyUse] = {}
        self.num_running = 0
        self.num_agents = 0
        """Of those that run, runs of agents."""
        self.is_draining = False
        """Whether nobody new is let in, because the server ends."""

    @property
    def num_entered(self) -> int:
        """Requests that run or wait."""
        return len(self._seats)

    @property
    def num_waiting(self) -> int:
        """Requests that wait."""
        return len(self._seats) - self.num_running

    def check(self, key: ClientKey | None) -> None:
        """Count a request of a key.

        Raises:
            ApiError: the server ends, or the key asked too often.
        """
        if self.is_draining:
            raise shutting_down()
        limit = None if key is None else key.limits.max_requests_per_minute
        if key is None or limit is None:
            return
        now, asked_at = time.monotonic(), self._use_of(key).asked_at
        while asked_at and asked_at[0] <= now - _MINUTE_S:
            asked_at.popleft()
        if len(asked_at) >= limit:
            raise _too_many(
                f"This key may ask {limit:,} times a minute, and has.", asked_at[-limit] + _MINUTE_S - now, "rate_limit"
            )
        asked_at.append(now)

    def enter(self, key: ClientKey | None, *, is_agent: bool = False) -> Seat:
        """Return a seat, which must be left in the end.

        Args:
            key: whose request it is.
            is_agent: whether it is for the run of an agent, which keeps it while tools work, too.

        Raises:
            ApiError: there is none, for this key or for anybody.
        """
        use = self._use_of(key)
        if key is not None and key.limits.max_queued is not None:
            most = (key.limits.max_running or self._max_running) + key.limits.max_queued
            if use.num_entered >= most:
                message = f"This key may have {most:,} requests at once, running and queued, and has."
                raise _too_many(message, RETRY_AFTER_S, "too_many_requests")
        kept_for_others = self._max_running - self._max_agents if is_agent else 0
        if self.num_entered >= self._max_entered - kept_for_others:
            raise unavailable("The server has as many requests as it takes. Ask again later.", "overloaded")
        seat = Seat(self, key, is_agent=is_agent)
        self._seats[seat] = None
        use.num_entered += 1
        return seat

    def end_all(self, reason: Callable[[], ApiError]) -> None:
        """End all requests, each with an error of its own."""
        for seat in list(self._seats):
            seat.end(reason())

    async def turn_of(self, seat: Seat) -> None:
        """Wait until a seat's request may run."""
        if not self._may_run(seat):
            turn = self._waiting[seat] = asyncio.get_running_loop().create_future()
            try:
                await turn
            finally:
                self._waiting.pop(seat, None)
            return  # who gave the turn counted it
        self._start(seat)

    def leave(self, seat: Seat) -> None:
        """Take a seat back, and give the turn to who waits."""
        if seat not in self._seats:
            return
        del self._seats[seat]
        use = self._use_of(seat.key)
        use.num_entered -= 1
        if seat.state == "running":
            self.num_running -= 1
            self.num_agents -= seat.is_agent
            use.num_running -= 1
        if not (use.num_entered or use.asked_at):
            del self._uses[_name(seat.key)]
        seat.state = "left"
        for waiting, turn in list(self._waiting.items()):
            if not turn.done() and self._may_run(waiting):
                self._start(waiting)
                turn.set_result(None)

    def _start(self, seat: Seat) -> None:
        seat.state = "running"
        self.num_running += 1
        self.num_agents += seat.is_agent
        self._use_of(seat.key).num_running += 1

    def _may_run(self, seat: Seat) -> bool:
        if seat.is_agent and self.num_agents >= self._max_agents:
            return False
        own = None if seat.key is None else seat.key.limits.max_running
        return self.num_running < self._max_running and (own is None or self._use_of(seat.key).num_running < own)

    def _use_of(self, key: ClientKey | None) -> _KeyUse:
        return self._uses.setdefault(_name(key), _KeyUse())


class Seat:
    """A request's place among those that run and wait."""

    def __init__(self, admission: Admission, key: ClientKey | None, *, is_agent: bool = False) -> None:
        self.key = key
        self.is_agent = is_agent
        self.state: Literal["waiting", "running", "left"] = "waiting"
        self._admission = admission
        self._limit: asyncio.Timeout | None = None
        self._reason: ApiError | None = None

    async def run(self, work: Callable[[], Awaitable[None]], *, begun: Callable[[], None]) -> None:
        """Wait for the turn, then do the work.

        Args:
            work: begins the work.
            begun: told when the turn has come.

        Raises:
            ApiError: the turn did not come in time, the work took too long, or the server ends.
        """
        admission, loop = self._admission, asyncio.get_running_loop()
        if self._reason is not None:
            raise self._reason
        try:
            async with asyncio.timeout(admission.queue_timeout_s) as self._limit:
                await admission.turn_of(self)
                if self._reason is None:
                    most = admission.request_timeout_s
                    self._limit.reschedule(None if most is None else loop.time() + most)
                begun()
                await work()
        except TimeoutError as error:
            if self._limit is None or not self._limit.expired():
                raise
            raise (self._reason or self._too_late()) from error
        finally:
            self._limit = None

    def end(self, reason: ApiError) -> None:
        """End what runs or waits here, with an error."""
        self._reason = reason
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def leave(self) -> None:
        """Give the place back."""
        self._admission.leave(self)

    def _too_late(self) -> ApiError:
        if self.state == "waiting":
            seconds = self._admission.queue_timeout_s
            return unavailable(
                f"The request waited {seconds:g} seconds for its turn. Ask again later.", "queue_timeout"
            )
        return ApiError(
            f"The request ran longer than {self._admission.request_timeout_s or 0:g} seconds, the most that this "
            "server allows. Ask for fewer tokens.",
            status=HTTPStatus.GATEWAY_TIMEOUT,
            code="request_timeout",
        )


def shutting_down() -> ApiError:
    """Return the answer of a server that ends."""
    return unavailable("The server is shutting down. Ask again later.", "shutting_down")


def _name(key: ClientKey | None) -> str | None:
    return None if key is None else key.salt


def _too_many(message: str, seconds: float, code: str) -> ApiError:
    after = str(max(1, math.ceil(seconds)))
    return ApiError(message, status=HTTPStatus.TOO_MANY_REQUESTS, code=code, headers=(("retry-after", after),))
