"""Which requests run in the next step: all that decode, and a stretch of the prompts that wait, first come first."""

from collections import deque

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.paged_cache import PagedCache
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request


class Scheduler:
    """Admits requests while the cache has room for all they may need, so that a running one never lacks a block."""

    def __init__(self, cache: PagedCache, *, max_running_requests: int, prefill_chunk_len: int) -> None:
        self._cache = cache
        self._max_running_requests = max_running_requests
        self._prefill_chunk_len = prefill_chunk_len
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._running)

    @property
    def num_running(self) -> int:
        """Requests admitted and not finished."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests not admitted yet."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._waiting.append(request)

    def remove(self, request: Request) -> None:
        """Drop a request that finished, failed or was aborted, and free what was reserved for tokens to come."""
        if request in self._running:
            self._running.remove(request)
        elif request in self._waiting:
            self._waiting.remove(request)
        request.sequence.is_running = False
        self._cache.release_unused(request.sequence)

    def holds(self, request: Request) -> bool:
        """Whether the request is waiting or running."""
        return request in self._running or request in self._waiting

    def requests(self) -> list[Request]:
        """Return every request that is waiting or running."""
        return [*self._running, *self._waiting]

    def schedule(self) -> Batch | None:
        """Pick the next step; None if nothing can run."""
        self._admit()
        entries: list[ScheduledRequest] = []
        budget = self._prefill_chunk_len
        for request in self._running:
            start = request.sequence.num_cached
            pending = len(request.sequence) - start
            if start >= request.num_prompt_tokens:
                entries.append(ScheduledRequest(request, start, pending))
            elif budget:
                num_tokens = min(pending, budget)
                budget -= num_tokens
                entries.append(ScheduledRequest(request, start, num_tokens))
        return Batch(tuple(entries)) if entries else None

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_running_requests:
            request = self._waiting[0]
            try:
                has_room = self._cache.reserve(request.sequence, request.max_len)
            except OutOfMemoryError as error:
                request.fail(error)
                self.remove(request)
                request.retire()
                continue
            if not has_room:
                return
            self._waiting.popleft()
            request.admit()
            self._running.append(request)
