"""A store of its own for every test, and a model that the commands can load in an instant."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sureact.cli.main import main

CheckpointMaker = Callable[..., Path]
Command = Callable[..., int]

SMALL_ENGINE = ("--quantization", "none", "--dtype", "float32", "--kv-cache-gb", "0.02")


@pytest.fixture(autouse=True)
def store_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store."""
    folder = tmp_path / "store"
    monkeypatch.setenv("SUREACT_HOME", str(folder))
    monkeypatch.delenv("SUREACT_MODEL", raising=False)
    return folder


@pytest.fixture(scope="session")
def roomy_folder(make_checkpoint: CheckpointMaker) -> Path:
    """A tiny checkpoint with a context that agents fit into."""
    return make_checkpoint("qwen2", max_position_embeddings=16384)


@pytest.fixture
def scripted_folder(store_folder: Path) -> Path:
    """A model called as scripted ones are, as far as its name goes: that of the traces that they write."""
    folder = store_folder / "models" / "scripted"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def on_tiny(tiny_folder: Path) -> Command:
    """Return a function that runs a command in this process on the tiny model and returns its exit code."""
    return lambda *words: main([*words, "--model", str(tiny_folder), *SMALL_ENGINE])


@pytest.fixture
def start() -> Callable[[Sequence[str]], "subprocess.Popen[str]"]:
    """Return a function that starts a command line in a process of its own."""

    def start_process(words: Sequence[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "sureact.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            # A test run in the background of a shell ignores Ctrl-C, and its children would inherit that.
            preexec_fn=_heed_interrupts,  # noqa: PLW1509  the child starts no thread before it runs
        )

    return start_process


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
