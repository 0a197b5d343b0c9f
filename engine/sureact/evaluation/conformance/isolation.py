"""An engine in a process of its own, with a limit on time and memory for each schema, started again when it dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal

from sureact.errors import InternalError
from sureact.evaluation.conformance.judging import refused_outcome
from sureact.evaluation.conformance.runner import CaseRunner, LocalRunner, peak_memory_bytes
from sureact.evaluation.conformance.timing import CaseTimes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.judging import CaseOutcome
    from sureact.evaluation.conformance.runner import RunnerSettings

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_BYTES = 4 << 30

_START_LIMIT_S = 120.0
"""For the imports and the vocabulary."""


class IsolatedRunner(CaseRunner):
    """Runs an engine that takes seconds and gigabytes for some schemas, or crashes on them."""

    def __init__(
        self,
        settings: RunnerSettings,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> None:
        super().__init__(settings)
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._process: SpawnProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._peak = 0

    def judge(self, case: ConformanceCase) -> CaseOutcome:
        """Compile a case and write its instances; a case that the process does not survive is a compile error."""
        answer = self._ask("judge", case)
        return refused_outcome(case, answer) if isinstance(answer, str) else answer

    def time(self, case: ConformanceCase) -> CaseTimes:
        """Time a case; one that ran into the limit counts as the limit."""
        answer = self._ask("time", case)
        return CaseTimes(self._time_limit_s * 1e3) if isinstance(answer, str) else answer

    @property
    def peak_memory_bytes(self) -> int:
        """The most memory that any of the processes held when it last answered."""
        return self._peak

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None

    def _ask(self, what: Literal["judge", "time"], case: ConformanceCase) -> Any:
        """Return the answer of the process, or in words why there is none."""
        connection = self._connection or self._start()
        try:
            connection.send((what, case))
            if not connection.poll(self._time_limit_s):
                self.close()
                return f"Takes longer than {self._time_limit_s:g} seconds."
            answer, self._peak = connection.recv()
        except (EOFError, OSError):
            self.close()
            return f"The engine's process died; its limit is {self._memory_limit_bytes / 1e9:.1f} GB of memory."
        return answer

    def _start(self) -> Connection[Any, Any]:
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self.settings, self._memory_limit_bytes), daemon=True
        )
        self._process.start()
        theirs.close()
        self._connection = connection
        try:
            if connection.poll(_START_LIMIT_S):
                connection.recv()
                return connection
        except EOFError:
            pass
        self.close()
        raise InternalError(f"The process of the engine {self.settings.engine!r} did not start.")


def _serve(connection: Connection[Any, Any], settings: RunnerSettings, memory_limit_bytes: int) -> None:
    """Answer until the other end is closed. What runs in the engine's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends this process
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns of each keyword that it drops
    runner = LocalRunner(settings)
    _limit_memory(memory_limit_bytes)
    connection.send("ready")
    while True:
        try:
            what, case = connection.recv()
        except EOFError:
            return
        try:
            answer = runner.judge(case) if what == "judge" else runner.time(case)
        except Exception as error:  # whatever an engine that is not ours raises is its answer to the case
            answer = f"{type(error).__name__}: {error}"
        connection.send((answer, peak_memory_bytes()))


def _limit_memory(num_bytes: int) -> None:
    """Let this process take so many bytes beyond what it has."""
    if sys.platform == "win32":
        return
    import resource

    import psutil

    limit = psutil.Process().memory_info().vms + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
