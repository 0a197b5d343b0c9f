"""Starts the processes that run tools."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_CODE = "import sys; sys.path.insert(0, {!r}); from {} import main; main()"


def start_tool_process(module: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start the `main` of a module of this package, with pipes to its standard input and output.

    Args:
        module: its full name.
        variables: of the environment, beside those of this process.
    """
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", _CODE.format(root, module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        # Ctrl-C is for the program that waits. In a session of its own it would not be behind it in priority.
        process_group=0,
    )


def end_tool_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, with what its tools have started and not taken out of its group, and wait for its end."""
    if process.poll() is None:  # a group without its first process may have been given to others since
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


def import_path() -> list[str]:
    """Return where this process looks for modules, as any other finds it."""
    return [entry or os.getcwd() for entry in sys.path]
