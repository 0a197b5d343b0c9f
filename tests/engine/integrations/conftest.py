"""An engine whose context holds the prompts that dspy writes, and dspy without its caches."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

# Read when dspy is imported; its caches are off below, but it makes their folder, and opens a database in it.
os.environ.setdefault(
    "DSPY_CACHEDIR",
    str(Path(tempfile.gettempdir()) / f"sureact-dspy-cache-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"),
)

import pytest

from sureact.engine import Engine


class CheckpointMaker(Protocol):
    """Writes a random checkpoint of a family and returns its folder."""

    def __call__(self, family: str, seed: int = 0, **options: Any) -> Path: ...


@pytest.fixture(scope="session")
def long_folder(make_checkpoint: CheckpointMaker) -> Path:
    """A tiny Qwen2 checkpoint with a context of 16,384 tokens, which are bytes."""
    return make_checkpoint("qwen2", max_position_embeddings=16384)


@pytest.fixture(scope="session")
def long_engine(long_folder: Path) -> Iterator[Engine]:
    """An engine in float32 over the checkpoint with the long context."""
    with Engine(str(long_folder), quantization="none", dtype="float32") as engine:
        yield engine


@pytest.fixture
def dspy_lm(long_engine: Engine) -> Iterator[Any]:
    """A language model for dspy over that engine, as the one that is configured, without caches and history."""
    import dspy

    from sureact.integrations.dspy import lm

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    model = lm(long_engine, max_tokens=800)
    with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
        yield model
