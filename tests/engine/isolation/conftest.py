"""One engine in a process of its own for all tests that do not end it, and the same engine in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine
from sureact.isolation.engine_process import EngineProcess

OPTIONS: dict[str, Any] = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.05}


@pytest.fixture(scope="session")
def roomy_folder(make_checkpoint: Callable[..., Path]) -> Path:
    """A tiny random checkpoint with a context that holds an agent's run."""
    return make_checkpoint("qwen2", max_position_embeddings=16384)


@pytest.fixture(scope="session")
def engine(roomy_folder: Path) -> Iterator[Engine]:
    with Engine(str(roomy_folder), **OPTIONS) as engine:
        yield engine


@pytest.fixture(scope="session")
def engine_process(roomy_folder: Path) -> Iterator[EngineProcess]:
    with EngineProcess(str(roomy_folder), **OPTIONS) as engine:
        yield engine
