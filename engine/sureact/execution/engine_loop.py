"""The thread that runs the model: takes requests from any thread, computes step after step, hands out tokens."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue

from sureact.errors import InternalError, RequestAbortedError, WorkerLostError
from sureact.execution.cpu_runtime import release_thread_pool
from sureact.execution.engine_stats import EngineStats
from sureact.execution.model_runner import ModelRunner
from sureact.execution.pass_output import PassOutput
from sureact.execution.request_errors import as_exception, as_pass_error
from sureact.execution.sampler import Sampler
from sureact.execution.uninterrupted import uninterrupted
from sureact.execution.verification import Verifier
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler

_Computed = tuple[ScheduledRequest, PassOutput | Exception, int]
"""A part of a batch, what the pass said of it or why it said nothing, and the number of its first row in the masks."""


class EngineLoop:
    """Owns the order of steps. `lock` guards the cache's and the scheduler's books; the forward pass runs without.

    Ctrl-C may stop the main thread after any call that it makes. So it only notes what it wants, and the loop's own
    thread changes the books of requests; it enters `lock` itself, whose `with` is one step, unlike a `Condition`'s,
    which may leave it locked; and it waits on a queue, since a `Condition` that is interrupted may not have its lock.
    """

    def __init__(self, scheduler: Scheduler, runner: ModelRunner, sampler: Sampler, cache: PagedCache) -> None:
        self.lock = threading.RLock()
        self._scheduler = scheduler
        self._runner: ModelRunner | None = runner
        self._sampler = sampler
        self._verifier = Verifier(cache, sampler)
        self._cache = cache
        self._stats = EngineStats(weight_bytes_per_token=runner.weight_bytes_per_token)
        self._wake = threading.Condition(self.lock)
        self._is_closed = False
        self._is_stepping = False
        self._submitted: deque[Request] = deque()
        """Requests that the scheduler does not know yet."""
        self._visitors: set[object] = set()
        """Those that want the engine between two steps; the next step waits for them."""
        self._bells: list[SimpleQueue[None]] = []
        """Of callers that wait; each is rung once."""
        self._forgotten: deque[CachedSequence] = deque()
        self._thread = threading.Thread(target=self._run, name="sureact-engine", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> EngineStats:
        """A snapshot of the counters."""
        with self.lock:
            total, free = self._cache.num_blocks_total, self._cache.num_blocks_free
            return replace(
                self._stats,
                num_preemptions=self._scheduler.num_preemptions,
                num_evictions=self._cache.num_evictions,
                num_running=self._scheduler.num_running,
                num_waiting=self._scheduler.num_waiting + len(self._submitted),
                kv_blocks_used=total - free,
                kv_blocks_total=total,
            )

    def holds(self, request: Request) -> bool:
        """Whether the request is waiting or running."""
        with self.lock:
            return request in self._submitted or self._scheduler.holds(request)

    def count_late_refusal(self) -> None:
        """Count a complete text that the last judge refused."""
        with self.lock:
            self._stats = replace(self._stats, num_late_refusals=self._stats.num_late_refusals + 1)

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        with self.lock:
            if self._is_closed:
                raise _closed()
            release_thread_pool()
            self._submitted.append(request)
            self._wake.notify_all()

    def cancel(self, request: Request) -> None:
        """End a request where it stands, after the step that runs now; return at once."""
        request.is_abort_wanted = True
        with self.lock:
            self._wake.notify_all()  # an interrupted `submit` may not have come to that

    def abort(self, request: Request) -> None:
        """End a request where it stands; return when its memory is free, which is after the step that runs now.

        On the engine's own thread, where the garbage collector may close a forgotten stream, it cannot wait: the
        request ends with the step.
        """
        self.cancel(request)
        if threading.current_thread() is not self._thread:
            self._wait_while(lambda: self.holds(request))

    def add_sequence(self, sequence: CachedSequence) -> None:
        """Begin to account for a new sequence that a session keeps."""
        with uninterrupted(), self.lock:
            self._drop_forgotten()
            self._cache.add(sequence)

    def forget(self, forgotten: Request | CachedSequence) -> None:
        """End a request by the next step, or free a sequence by the next step or request; take no lock.

        The garbage collector calls it, maybe on a thread that is in the middle of the books.
        """
        if isinstance(forgotten, Request):
            forgotten.is_abort_wanted = True
        else:
            self._forgotten.append(forgotten)

    @contextmanager
    def between_steps(self) -> Generator[ModelRunner]:
        """Hold the engine between two steps, so that the contents of the cache may be read and written.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        visitor = object()
        try:
            with self.lock:
                self._visitors.add(visitor)
            self._wait_while(lambda: self._is_stepping)
            with self.lock:
                if self._runner is None or self._is_closed:
                    raise _closed()
                self._make_copies(self._runner)
                yield self._runner
        finally:
            with self.lock:
                self._visitors.discard(visitor)
                self._wake.notify_all()

    def close(self) -> None:
        """Fail what is left, after the step that runs, and end the thread."""
        with self.lock:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with self.lock:
            runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def step(self) -> bool:
        """Run one step if there is work.

        Returns:
            Whether anything ran.
        """
        with self.lock:
            while self._visitors:
                self._wake.wait()
            self._take_submitted()
            self._drop_aborted()
            batch = self._scheduler.schedule()
            if batch is None:
                return False
            runner = self._runner
            assert runner is not None, "a closed loop takes no step"
            try:
                self._make_copies(runner)
            except Exception as error:  # without them no pass may read or write the blocks
                self._fail_batch(batch, as_pass_error(error))
                return True
            self._is_stepping = True
        start = time.perf_counter()
        computed = self._compute(batch, runner)
        with self.lock:
            self._is_stepping = False
            self._advance(batch, computed, start)
            self._drop_aborted()
        return True

    def _run(self) -> None:
        failed: Exception = _closed()
        try:
            self._run_until_closed()
        except BaseException as error:  # whoever waits must learn that nobody will answer
            failed = error if isinstance(error, WorkerLostError) else _stopped(error)
        with self.lock:
            self._is_closed = True
            self._is_stepping = False
            self._fail_all(failed)

    def _run_until_closed(self) -> None:
        while True:
            with self.lock:
                while not (self._submitted or self._scheduler.has_work or self._is_closed):
                    release_thread_pool()
                    self._wake.wait()
                if self._is_closed:
                    return
            self.step()

    def _wait_while(self, is_so: Callable[[], bool]) -> None:
        """Wait on a caller's thread for what a step may change."""
        while True:
            with self.lock:
                if not is_so():
                    return
                bell: SimpleQueue[None] = SimpleQueue()
                self._bells.append(bell)
            bell.get()

    def _ring(self) -> None:
        """Let callers that wait look again."""
        for bell in self._bells:
            bell.put(None)
        self._bells.clear()

    def _take_submitted(self) -> None:
        while self._submitted:
            self._begin(self._submitted.popleft())

    def _begin(self, request: Request) -> None:
        """Queue a request, unless it fails or ends without a step."""
        try:
            if request.owns_sequence:
                self._cache.add(request.sequence)
            if request.is_abort_wanted:  # whoever wanted it left while it was made
                request.abort()
            else:
                request.begin()
            if not request.is_done:
                self._scheduler.add(request)
                return
        except BaseException as error:  # a constraint that raises, or a cache too small: its reader gets it
            request.fail(as_exception(error))
        self._retire(request)

    def _make_copies(self, runner: ModelRunner) -> None:
        """Copy the blocks that sequences begin alike and go on with apart; without its copy a sequence has nothing."""
        copies = self._cache.take_copies()
        try:
            runner.copy_blocks(copies)
        except Exception:
            self._cache.discard_copies(copies)
            raise

    def _compute(self, batch: Batch, runner: ModelRunner) -> list[_Computed]:
        """Run the pass; where it fails, run each entry alone, so that only the one at fault fails."""
        try:
            output = runner.run(batch, lambda: self._sampler.fill_masks(batch.entries))
        except WorkerLostError:
            raise  # no pass can run any more
        except BaseException as error:  # a failed pass ends requests, never the engine
            if len(batch.entries) == 1:
                return [(batch.entries[0], as_pass_error(error), 0)]
            return self._compute_apart(batch, runner)
        computed: list[_Computed] = []
        row = 0
        for entry in batch.entries:
            computed.append((entry, output.rows(row, row + entry.num_picks), row))
            row += entry.num_picks
        return computed

    def _compute_apart(self, batch: Batch, runner: ModelRunner) -> list[_Computed]:
        computed: list[_Computed] = []
        for entry in batch.entries:
            computed += self._compute(Batch((entry,)), runner)
        # Each pass filled the masks from row 0; the picks need them side by side.
        self._sampler.fill_masks(batch.entries)
        row = 0
        for index, (entry, output, _) in enumerate(computed):
            computed[index] = (entry, output, row)
            row += entry.num_picks
        return computed

    def _advance(self, batch: Batch, computed: list[_Computed], start: float) -> None:
        num_before = sum(entry.request.num_accepted for entry in batch.entries)
        for entry, output, first_row in computed:
            if isinstance(output, Exception):
                self._fail(entry.request, output)
            else:
                self._verifier.advance(entry, output, first_row)
        num_gained = sum(entry.request.num_accepted for entry in batch.entries) - num_before
        self._count(batch, time.perf_counter() - start, num_gained)
        for entry in batch.entries:
            if entry.request.is_done:
                self._retire(entry.request)

    def _fail(self, request: Request, error: Exception) -> None:
        """End a request whose pass failed; what the pass left in its blocks may be infinite or NaN."""
        request.fail(error)
        blocks = self._cache.discard(request.sequence)
        if self._runner is not None:
            self._runner.clear_blocks(blocks)

    def _fail_batch(self, batch: Batch, error: Exception) -> None:
        for entry in batch.entries:
            self._fail(entry.request, error)
            self._retire(entry.request)
        self._ring()

    def _fail_all(self, error: Exception) -> None:
        left = [*self._scheduler.requests(), *self._submitted]
        self._submitted.clear()
        for request in left:
            request.fail(error)
            self._retire(request)
        self._ring()

    def _drop_aborted(self) -> None:
        """Retire what was aborted or failed, and remove what was forgotten."""
        for request in self._scheduler.requests():
            if request.is_abort_wanted:
                request.abort()
            if request.is_done:  # it may have failed before its step
                self._retire(request)
        self._drop_forgotten()
        self._ring()

    def _drop_forgotten(self) -> None:
        for sequence in [self._forgotten.popleft() for _ in range(len(self._forgotten))]:
            if any(request.sequence is sequence for request in self._scheduler.requests()):
                self._forgotten.append(sequence)  # its stream is still read
            else:
                self._cache.remove(sequence)

    def _retire(self, request: Request) -> None:
        """Cut a finished request's sequence to what remains of its text and give back what it does not need."""
        self._verifier.cut(request)
        self._scheduler.remove(request)
        if request.owns_sequence:
            self._cache.remove(request.sequence)
        self._stats = self._stats.with_request(request)
        request.retire()

    def _count(self, batch: Batch, seconds: float, num_generated: int) -> None:
        for entry in batch.entries:
            if entry.is_prefill:
                entry.request.seconds.prefill += seconds
            else:
                entry.request.seconds.decode += seconds
        self._stats = self._stats.with_step(batch, seconds, num_generated)


def _stopped(error: BaseException) -> InternalError:
    failed = InternalError(f"The engine stopped: {type(error).__name__}: {error}. Please report it.")
    failed.__cause__ = error
    return failed


def _closed() -> RequestAbortedError:
    return RequestAbortedError("The engine is closed. Open a new one and ask again.")
