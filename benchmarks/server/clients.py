"""Clients of a server, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_CLIENT = Path(__file__).with_name("client.py")


class Clients:
    """Processes that are connected to a server and wait to be told what to ask."""

    def __init__(self, port: int, num_clients: int) -> None:
        command = [sys.executable, "-I", str(_CLIENT), str(port)]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(num_clients)
        ]
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "connected\n":
                self._end()
                raise RuntimeError("a client could not connect")

    def ask(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Have as many clients as there are bodies ask, all at once, and return their times by the machine's clock."""
        busy = self._processes[: len(bodies)]
        lines = [json.dumps(body) + "\n" for body in bodies]
        for process, line in zip(busy, lines, strict=True):
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        return [self._read(process) for process in busy]

    def _read(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a client ended; what it says of that stands above")
        return json.loads(line)

    def _end(self) -> None:
        for process in self._processes:
            process.communicate()

    def __enter__(self) -> Self:
        """Return the clients."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End them."""
        self._end()
