"""Which requests run in the next step: all that decode, oldest first, and a stretch of the prompts that wait."""

from collections import deque

from sureact.config import MAX_DRAFT_LEN
from sureact.errors import OutOfMemoryError
from sureact.kv_cache.paged_cache import PagedCache
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request

_SHARED_CHUNK_SHARE = 4
"""A prompt's chunk is this many times shorter while others decode, so that they do not wait long for their tokens."""

_MIN_SHARED_CHUNK = 32
_MIN_AWAITED_TOKENS = 16
"""Tokens of another's prompt, computed in the same step, that are worth waiting a step for."""


class Scheduler:
    """Shares steps and cache among requests. Not thread-safe: the engine holds a lock.

    A running request takes cache blocks as it grows. When there are none, the newest running request gives its own
    back and waits; what it had is computed again later. So the oldest always gets on, and all end.
    """

    def __init__(
        self,
        cache: PagedCache,
        *,
        max_running_requests: int,
        prefill_chunk_len: int,
        has_prefix_cache: bool = True,
        reserves_ahead: bool = False,
    ) -> None:
        """Start without requests.

        Args:
            cache: shared among the requests.
            max_running_requests: that decode together.
            prefill_chunk_len: most prompt tokens of a step.
            has_prefix_cache: whether prompts adopt what others computed.
            reserves_ahead: whether decoding requests get room, if there is any, for tokens that steps compute ahead.
        """
        self._reserves_ahead = reserves_ahead
        self._cache = cache
        self._max_running_requests = max_running_requests
        self._prefill_chunk_len = prefill_chunk_len
        self._has_prefix_cache = has_prefix_cache
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self.num_preemptions = 0

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
        """Requests not admitted yet, or preempted."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            OutOfMemoryError: not even alone would it fit into the cache.
        """
        if request.max_len > self._cache.num_tokens_total:
            raise OutOfMemoryError(
                f"A prompt of {request.num_prompt_tokens:,} tokens and max_tokens={request.params.max_tokens:,} do not "
                f"fit into the KV cache of {self._cache.num_tokens_total:,} tokens. Lower max_tokens, shorten the "
                "prompt, or raise kv_cache_gb."
            )
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
        entries = self._decode_entries()
        entries += self._prefill_entries(entries)
        return Batch(tuple(entries)) if entries else None

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_running_requests:
            request = self._waiting.popleft()
            request.sequence.is_running = True
            # The last token is computed in any case, since its logits are needed.
            request.sequence.num_cached = min(request.sequence.num_cached, len(request.sequence) - 1)
            self._running.append(request)

    def _decode_entries(self) -> list[ScheduledRequest]:
        decoding = [request for request in self._running if not _is_prefilling(request)]
        entries: list[ScheduledRequest] = []
        draft_rows = MAX_DRAFT_LEN
        for request in decoding:
            if request not in self._running:
                continue  # preempted for one before it
            start, end = request.sequence.num_cached, len(request.sequence)
            request.note_cached()
            try:
                draft = request.propose_draft(len(decoding))[:draft_rows]
            except Exception as error:  # a constraint that raises ends its own request
                request.fail(error)
                continue
            if draft and not self._cache.reserve(request.sequence, end + len(draft)):
                draft = ()
            if draft or self._reserve_by_preempting(request, end):
                draft_rows -= len(draft)
                if self._reserves_ahead and not draft:
                    # The step ahead of this one already looks up the place of the one after it.
                    self._cache.reserve(request.sequence, min(end + 2, request.max_len))
                entries.append(ScheduledRequest(request, start, end - start, draft))
        return entries

    def _prefill_entries(self, beside: list[ScheduledRequest]) -> list[ScheduledRequest]:
        budget = self._prefill_chunk_len
        if beside:
            budget = min(budget, max(_MIN_SHARED_CHUNK, budget // _SHARED_CHUNK_SHARE))
        entries: list[ScheduledRequest] = []
        for request, most in self._prefill_shares(budget):
            if not budget:
                break
            if request not in self._running:
                continue  # preempted for one before it
            sequence = request.sequence
            self._cache.adopt_prefix(sequence)
            if self._is_computed_beside(request, entries):
                continue
            num_tokens = min(len(sequence) - sequence.num_cached, budget, most)
            end = sequence.num_cached + num_tokens
            # While others get on, blocks come back by themselves.
            if not self._cache.reserve(sequence, end) and (
                beside or entries or not self._reserve_by_preempting(request, end)
            ):
                break
            request.note_cached()
            budget -= num_tokens
            entries.append(ScheduledRequest(request, sequence.num_cached, num_tokens))
        return entries

    def _prefill_shares(self, budget: int) -> list[tuple[Request, int]]:
        """Return the requests that read a prompt and how much each may at most, in the order in which they do.

        The oldest has the step, but for up to half of it that short prompts behind it can be read in whole.
        """
        prefilling = [request for request in self._running if _is_prefilling(request)]
        room = budget // 2
        short: list[tuple[Request, int]] = []
        for request in prefilling[1:]:
            num_left = len(request.sequence) - request.sequence.num_cached
            if num_left <= room:
                short.append((request, num_left))
                room -= num_left
        first = [(request, budget - budget // 2 + room) for request in prefilling[:1]]
        served = {id(request) for request, _ in first + short}
        return first + short + [(request, budget) for request in prefilling if id(request) not in served]

    def _reserve_by_preempting(self, request: Request, num_tokens: int) -> bool:
        """Reserve for a running request, at the cost of newer ones; give up its own blocks if it is the newest."""
        while not self._cache.reserve(request.sequence, num_tokens):
            newest = self._running[-1]
            self._preempt(newest)
            if newest is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        self._running.remove(request)
        request.sequence.is_running = False
        self._cache.release(request.sequence)
        request.num_prefill_tokens = len(request.sequence)
        self._waiting.appendleft(request)
        self.num_preemptions += 1

    def _is_computed_beside(self, request: Request, entries: list[ScheduledRequest]) -> bool:
        """Whether this step computes for another what the request can adopt in the next."""
        if not self._has_prefix_cache:
            return False
        num_needed = request.sequence.num_cached + _MIN_AWAITED_TOKENS
        wanted = request.sequence.token_ids[:num_needed]
        return len(wanted) == num_needed and any(
            entry.end >= num_needed
            and entry.request.sequence.cache_salt == request.sequence.cache_salt
            and entry.request.sequence.token_ids[:num_needed] == wanted
            for entry in entries
        )


def _is_prefilling(request: Request) -> bool:
    return request.sequence.num_cached < request.num_prefill_tokens
