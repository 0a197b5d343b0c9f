"""The thread that runs the model: takes requests from any thread, computes step after step, hands out tokens."""

import threading
import time
from dataclasses import dataclass, replace

from sureact.errors import InternalError, OutOfMemoryError, RequestAbortedError
from sureact.execution.cpu_runtime import release_thread_pool
from sureact.execution.model_runner import ModelRunner
from sureact.execution.sampler import DeadEnd, PickedToken, Sampler
from sureact.kv_cache.paged_cache import PagedCache
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What the engine did since it started."""

    num_requests: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    cached_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    mask_s: float = 0.0
    num_vetoes: int = 0
    """Tokens that constraints refused although their masks offered them."""
    num_dead_ends: int = 0
    """Constrained texts that no token could continue."""
    num_rollbacks: int = 0
    """Tokens taken back from dead ends."""
    num_budget_exhausted: int = 0
    """Requests that failed because they had taken back `max_rollbacks` tokens."""
    num_late_refusals: int = 0
    """Complete texts that only the last judge refused: a fault of sureact, so it should stay 0."""
    num_evictions: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0

    @property
    def decode_tokens_per_s(self) -> float:
        """Decoded tokens per second of decoding."""
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prompt tokens computed per second of prefilling."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else 0.0


class EngineLoop:
    """Owns the order of steps. `lock` guards the cache's and the scheduler's books; the forward pass runs without."""

    def __init__(self, scheduler: Scheduler, runner: ModelRunner, sampler: Sampler, cache: PagedCache) -> None:
        self.lock = threading.RLock()
        self._scheduler = scheduler
        self._runner: ModelRunner | None = runner
        self._sampler: Sampler | None = sampler
        self._cache = cache
        self._stats = EngineStats()
        self._wake = threading.Condition(self.lock)
        self._is_closed = False
        self._is_stepping = False
        self._thread: threading.Thread | None = None

    @property
    def stats(self) -> EngineStats:
        """A snapshot of the counters."""
        with self.lock:
            total, free = self._cache.num_blocks_total, self._cache.num_blocks_free
            return replace(
                self._stats,
                num_evictions=self._cache.num_evictions,
                kv_blocks_used=total - free,
                kv_blocks_total=total,
            )

    def holds(self, request: Request) -> bool:
        """Whether the request is waiting or running."""
        with self.lock:
            return self._scheduler.holds(request)

    def count_late_refusal(self) -> None:
        """Count a complete text that the last judge refused."""
        with self.lock:
            self._stats = replace(self._stats, num_late_refusals=self._stats.num_late_refusals + 1)

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        with self._wake:
            if self._is_closed:
                raise _closed()
            release_thread_pool()
            if request.owns_sequence:
                self._cache.add(request.sequence)
            self._scheduler.add(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sureact-engine", daemon=True)
                self._thread.start()
            self._wake.notify()

    def abort(self, request: Request) -> None:
        """End a request where it stands; return when its memory is free, which is after the step that runs now.

        On the engine's own thread, where the garbage collector may close a forgotten stream, it cannot wait: the
        request ends with the step.
        """
        with self._wake:
            request.is_abort_wanted = True
            if threading.current_thread() is self._thread:
                return
            if not self._is_stepping:
                self._drop_aborted()
            while self._scheduler.holds(request):
                self._wake.wait()

    def close(self) -> None:
        """Fail what is left, after the step that runs, and end the thread."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._wake:
            self._fail_all(_closed())
            self._runner = None
            self._sampler = None

    def step(self) -> bool:
        """Run one step if there is work.

        Returns:
            Whether anything ran.
        """
        with self.lock:
            self._drop_aborted()
            batch = self._scheduler.schedule()
            if batch is None:
                return False
            self._is_stepping = True
        start = time.perf_counter()
        picked = self._compute(batch)
        with self._wake:
            self._is_stepping = False
            self._count(batch, time.perf_counter() - start)
            for entry, outcome in zip(batch.entries, picked, strict=True):
                self._advance(entry, outcome)
            self._drop_aborted()
        return True

    def _run(self) -> None:
        try:
            self._run_until_closed()
        except BaseException as error:  # whoever waits must learn that nobody will answer
            failed = InternalError(f"The engine stopped: {type(error).__name__}: {error}. Please report it.")
            failed.__cause__ = error
            with self._wake:
                self._is_closed = True
                self._is_stepping = False
                self._fail_all(failed)

    def _run_until_closed(self) -> None:
        while True:
            with self._wake:
                while not self._scheduler.has_work and not self._is_closed:
                    release_thread_pool()
                    self._wake.wait()
                if self._is_closed:
                    return
            self.step()

    def _compute(self, batch: Batch) -> list[PickedToken | DeadEnd | Exception | None]:
        """Run the pass and pick tokens: one result per entry, None where the prompt goes on."""
        assert self._runner is not None, "a closed loop takes no step"
        assert self._sampler is not None, "a closed loop takes no step"
        ending = [entry.request for entry in batch.entries if entry.is_last_chunk]
        try:
            picked = iter(self._sampler.pick(self._runner.run(batch), ending))
        except Exception as error:  # a failed pass ends its requests, never the engine
            return [_as_request_error(error)] * len(batch.entries)
        return [next(picked) if entry.is_last_chunk else None for entry in batch.entries]

    def _advance(self, entry: ScheduledRequest, picked: PickedToken | DeadEnd | Exception | None) -> None:
        request = entry.request
        if isinstance(picked, Exception):
            request.fail(picked)
            if self._runner is not None:
                self._runner.clear_blocks(request.sequence.block_table)
        else:
            request.sequence.num_cached = entry.end
            if isinstance(picked, DeadEnd):
                self._leave_dead_end(request)
            elif picked is not None:
                self._accept(request, picked)
        if request.is_done:
            self._retire(request)

    def _accept(self, request: Request, token: PickedToken) -> None:
        try:
            request.accept(token.token_id, token.logprobs)
        except Exception as error:  # a constraint that raises ends its own request only
            request.fail(error)

    def _leave_dead_end(self, request: Request) -> None:
        """Take tokens back to the latest position that may have another way on; the next step looks for it there."""
        assert self._sampler is not None, "a closed loop takes no step"
        try:
            request.take_back()
            while self._sampler.is_dead_end(request):
                request.take_back()
        except Exception as error:  # a constraint that raises, or a spent budget, ends its own request only
            request.fail(error)

    def _fail_all(self, error: Exception) -> None:
        for request in self._scheduler.requests():
            request.fail(error)
            self._retire(request)
        self._wake.notify_all()

    def _drop_aborted(self) -> None:
        for request in self._scheduler.requests():
            if request.is_abort_wanted:
                request.abort()
                self._retire(request)
        self._wake.notify_all()

    def _retire(self, request: Request) -> None:
        """Cut a finished request's sequence to what remains of its text and give back what it does not need."""
        self._cache.truncate(request.sequence, request.num_prompt_tokens + request.num_kept)
        request.sequence.token_ids += request.leftover_ids
        self._scheduler.remove(request)
        if request.owns_sequence:
            self._cache.remove(request.sequence)
        request.retire()
        stats, refusals = self._stats, request.refusals
        self._stats = replace(
            stats,
            num_requests=stats.num_requests + 1,
            cached_tokens=stats.cached_tokens + request.num_cached_at_start,
            mask_s=stats.mask_s + request.seconds.mask,
            num_vetoes=stats.num_vetoes + refusals.vetoes,
            num_dead_ends=stats.num_dead_ends + refusals.dead_ends,
            num_rollbacks=stats.num_rollbacks + refusals.rollbacks,
            num_budget_exhausted=stats.num_budget_exhausted + refusals.is_budget_exhausted,
        )

    def _count(self, batch: Batch, seconds: float) -> None:
        stats = self._stats
        prefill = sum(entry.num_tokens for entry in batch.entries if entry.is_prefill)
        decode = sum(1 for entry in batch.entries if not entry.is_prefill)
        for entry in batch.entries:
            if entry.is_prefill:
                entry.request.seconds.prefill += seconds
            else:
                entry.request.seconds.decode += seconds
        self._stats = replace(
            stats,
            prefill_tokens=stats.prefill_tokens + prefill,
            decode_tokens=stats.decode_tokens + decode,
            prefill_s=stats.prefill_s + (seconds if prefill else 0),
            decode_s=stats.decode_s + (0 if prefill else seconds),
        )


def _as_request_error(error: Exception) -> Exception:
    is_out_of_memory = isinstance(error, MemoryError) or "alloc" in str(error) or "out of memory" in str(error).lower()
    if not is_out_of_memory:
        return error
    failed = OutOfMemoryError(
        f"The forward pass ran out of memory ({error}). Lower prefill_chunk_len, kv_cache_gb or the prompt's length."
    )
    failed.__cause__ = error
    return failed


def _closed() -> RequestAbortedError:
    return RequestAbortedError("The engine is closed. Open a new one and ask again.")
