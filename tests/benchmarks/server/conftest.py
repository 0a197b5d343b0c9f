"""A tiny engine to serve."""

from tests.engine.conftest import make_checkpoint, tiny_engine, tiny_folder

__all__ = ["make_checkpoint", "tiny_engine", "tiny_folder"]
