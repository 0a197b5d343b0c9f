"""Workers answer, are missed when they end or say nothing, and never outlive who started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from sureact.distributed.worker_processes import WorkerProcesses
from sureact.errors import WorkerLostError

MODULE = "tests.engine.distributed.echo_worker"
Start = Callable[..., WorkerProcesses]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[WorkerProcesses] = []

    def start(num_workers: int = 1, *, timeout_s: float = 30.0) -> WorkerProcesses:
        started.append(WorkerProcesses(MODULE, num_workers, timeout_s=timeout_s, environment={}))
        return started[-1]

    yield start
    for workers in started:
        workers.kill()


def are_gone(process_ids: list[int], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not any(map(is_running, process_ids)):
            return True
        time.sleep(0.02)
    return False


def is_running(process_id: int) -> bool:
    # A process whose parent was killed stays a zombie until init looks after it.
    return psutil.pid_exists(process_id) and psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE


def test_each_worker_answers_for_itself_and_ends_when_closed(start: Start) -> None:
    workers = start(2)
    workers.send(b"all")
    assert workers.receive() == [b"all %d" % process_id for process_id in workers.process_ids]
    workers.send_each([b"one", b"two"])
    assert [answer.split()[0] for answer in workers.receive(waits_forever=True)] == [b"one", b"two"]
    assert workers.find_lost() is None
    workers.close()
    assert are_gone(workers.process_ids)


def test_a_worker_that_ends_is_missed_with_its_exit_code(start: Start) -> None:
    workers = start()
    workers.send(b"end 7")
    with pytest.raises(WorkerLostError, match=r"Process 1 of the model \(\d+\) is lost: ended with exit code 7"):
        workers.receive()
    lost = workers.find_lost()
    assert lost is not None
    assert "exit code 7" in str(lost)
    with pytest.raises(WorkerLostError):
        workers.send(b"more")


def test_a_worker_that_is_killed_is_missed_with_the_signal(start: Start) -> None:
    workers = start()
    os.kill(workers.process_ids[0], signal.SIGKILL)
    with pytest.raises(WorkerLostError, match="signal SIGKILL"):
        workers.receive()


def test_a_worker_that_says_nothing_or_takes_nothing_is_not_waited_for_longer_than_allowed(start: Start) -> None:
    workers = start(timeout_s=0.5)
    workers.send(b"warm")
    workers.receive(waits_forever=True)
    workers.send(b"sleep")
    with pytest.raises(WorkerLostError, match=r"no answer within 0\.5 seconds"):
        workers.receive()
    with pytest.raises(WorkerLostError):
        workers.send(bytes(10**7))


def test_workers_that_are_forgotten_end(start: Start) -> None:
    workers = WorkerProcesses(MODULE, 1, timeout_s=30, environment={})
    process_ids = workers.process_ids
    del workers
    assert are_gone(process_ids)


def test_workers_end_when_their_parent_is_killed() -> None:
    code = (
        "from sureact.distributed.worker_processes import WorkerProcesses; import time\n"
        f"workers = WorkerProcesses({MODULE!r}, 1, timeout_s=30, environment={{}})\n"
        "workers.send(b'sleep')\n"
        "print(*workers.process_ids, flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        process_ids = [int(word) for word in parent.stdout.readline().split()]
        assert process_ids
        parent.kill()
    assert are_gone(process_ids)
