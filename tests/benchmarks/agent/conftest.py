"""The tiny checkpoints of the engine's tests."""

from tests.engine.agent.conftest import roomy_engine
from tests.engine.conftest import make_checkpoint, tiny_folder

__all__ = ["make_checkpoint", "roomy_engine", "tiny_folder"]
