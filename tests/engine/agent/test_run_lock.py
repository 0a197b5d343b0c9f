import subprocess
import sys
from pathlib import Path

import pytest

from sureact.agent import run_lock
from sureact.agent.run_lock import RunLock
from sureact.errors import TraceError

needs_locks = pytest.mark.skipif(sys.platform != "linux", reason="only Linux locks open files")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n")
    return path


@needs_locks
def test_a_run_has_one_holder_at_a_time(path: Path) -> None:
    lock = RunLock(path, "a")
    with pytest.raises(TraceError, match="the run a is at work"):
        RunLock(path, "a")
    path.read_text()  # reading and closing the file does not give the lock up
    with pytest.raises(TraceError):
        RunLock(path, "a")
    lock.release()
    lock.release()
    RunLock(path, "a").release()


@needs_locks
def test_runs_that_share_a_file_are_locked_apart(path: Path) -> None:
    locks = [RunLock(path, run_id) for run_id in "abc"]
    for lock in locks:
        lock.release()


@needs_locks
def test_the_lock_holds_against_processes_and_ends_with_its_holder(path: Path) -> None:
    code = "import sys; from sureact.agent.run_lock import RunLock; RunLock(sys.argv[1], 'a'); print('locked')"

    def other() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)

    assert other().stdout == "locked\n"
    lock = RunLock(path, "a")  # the other one is gone, and its lock with it
    assert "TraceError" in other().stderr
    lock.release()


def test_where_there_are_no_locks_none_is_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "_HAS_LOCKS", False)
    first, second = RunLock(path, "a"), RunLock(path, "a")
    first.release()
    second.release()
    RunLock(path.parent / "none.jsonl", "a").release()
