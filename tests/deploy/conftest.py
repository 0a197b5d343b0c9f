"""A tiny model to serve."""

from tests.engine.conftest import make_checkpoint, tiny_folder

__all__ = ["make_checkpoint", "tiny_folder"]
