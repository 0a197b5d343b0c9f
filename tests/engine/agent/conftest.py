"""A tiny model whose context agents fit into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sureact.engine import Engine


@pytest.fixture(scope="session")
def roomy_engine(make_checkpoint: Callable[..., Path]) -> Iterator[Engine]:
    """An engine in float32 over a tiny random checkpoint."""
    folder = make_checkpoint("qwen2", max_position_embeddings=16384)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.05) as engine:
        yield engine
