from concurrent.futures import ThreadPoolExecutor

import pytest

from sureact.agent import default_model as module
from sureact.agent.default_model import DEFAULT_AGENT_MODEL, default_model

opened: list[str] = []


class FakeEngine:
    def __init__(self, model: str) -> None:
        opened.append(model)


@pytest.fixture(autouse=True)
def no_real_engine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sureact.engine.Engine", FakeEngine)
    monkeypatch.delenv("SUREACT_MODEL", raising=False)
    opened.clear()
    module._engine.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield
    module._engine.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_all_share_one_engine_of_the_agent_model():
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(default_model) for _ in range(8)]
        engines = [future.result() for future in futures]
    assert all(engine is engines[0] for engine in engines)
    assert opened == [DEFAULT_AGENT_MODEL]


def test_the_environment_chooses_another(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUREACT_MODEL", "mine")
    default_model()
    assert opened == ["mine"]


def test_the_commands_take_the_same_default():
    from sureact.cli.model_options import AGENT_MODEL

    assert AGENT_MODEL == DEFAULT_AGENT_MODEL
