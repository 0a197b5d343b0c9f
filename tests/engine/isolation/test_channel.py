import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sureact.errors import RequestAbortedError, SureactError, WorkerLostError
from sureact.isolation.engine_process import EngineProcess
from sureact.sampling_params import SamplingParams

LONG = SamplingParams(max_tokens=8000, ignore_eos=True)
OPTIONS: dict[str, Any] = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.05}


@pytest.fixture
def own(roomy_folder: Path) -> Iterator[EngineProcess]:
    """An engine that a test may end."""
    with EngineProcess(str(roomy_folder), **OPTIONS) as engine:
        yield engine


def start_long(engine: EngineProcess, count: int) -> tuple[list[threading.Thread], list[BaseException]]:
    """Start threads that wait for long texts, and return what they will be told."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            engine.generate("Once", LONG)
        except SureactError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    while engine.stats().num_running < count:
        time.sleep(0.01)
    return threads, errors


def ends(process_id: int) -> bool:
    """Whether a process is gone within a while."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not psutil.pid_exists(process_id) or psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_an_interrupt_does_not_cut_a_message(own: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = own.channel._connection  # pyright: ignore[reportPrivateUsage]

    def send_in_parts(packed: bytes) -> None:
        head = len(packed).to_bytes(4, "big")
        os.write(connection.fileno(), head)
        signal.raise_signal(signal.SIGINT)
        os.write(connection.fileno(), packed)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "send_bytes", send_in_parts)
            with pytest.raises(KeyboardInterrupt):
                own.stats()
        assert own.generate("Once", SamplingParams(max_tokens=2, ignore_eos=True)).completions[0].token_ids
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_killed_process_fails_all_that_waits_and_all_that_follows(own: EngineProcess) -> None:
    session = own.session()
    session.append("One")
    threads, errors = start_long(own, 2)
    stream = own.stream("Once", LONG)
    next(stream)
    os.kill(own.process_id, signal.SIGKILL)
    with pytest.raises(WorkerLostError, match="signal SIGKILL"):
        for _ in stream:
            pass
    stream.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [WorkerLostError] * 2
    assert not own.is_open
    for call in (own.stats, own.session, lambda: own.generate("a"), session.generate):
        with pytest.raises(WorkerLostError, match="Open a new engine"):
            call()
    session.close()
    own.close()
    with pytest.raises(WorkerLostError):
        own.stats()


def test_closing_ends_what_runs_and_the_process(own: EngineProcess) -> None:
    threads, errors = start_long(own, 2)
    own.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [RequestAbortedError] * 2
    assert not psutil.pid_exists(own.process_id)
    own.close()
    with pytest.raises(RequestAbortedError, match="is closed"):
        own.session()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_no_part_in_it(engine_process: EngineProcess) -> None:
    program = os.fork()
    if program == 0:
        code = 1
        try:
            engine_process.stats()
        except WorkerLostError:
            engine_process.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == 0
    assert engine_process.stats().num_running == 0


def test_the_process_is_in_the_session_of_the_program_but_in_no_group_that_the_terminal_interrupts(
    engine_process: EngineProcess,
) -> None:
    assert os.getsid(engine_process.process_id) == os.getsid(0)
    assert os.getpgid(engine_process.process_id) == engine_process.process_id


def test_the_process_ends_with_the_program(roomy_folder: Path) -> None:
    code = (
        "import sys\nfrom sureact import EngineProcess\n"
        f"engine = EngineProcess({str(roomy_folder)!r}, **{OPTIONS!r})\n"
        "print(engine.process_id, flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        process_id = int(program.stdout.readline())
        assert psutil.pid_exists(process_id)
        program.kill()
    assert ends(process_id)
