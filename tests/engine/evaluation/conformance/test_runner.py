from importlib.util import find_spec

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.runner import LocalRunner, RunnerSettings, peak_memory_bytes, require_engine

CASE = ConformanceCase(
    file="", name="", schema={"type": "integer"}, instances=(Instance("1", True), Instance("x", False))
)


@pytest.mark.parametrize("engine", ["sureact", "llguidance", "outlines"])
def test_an_engine_judges_and_is_timed_in_this_process(engine: str) -> None:
    settings = RunnerSettings(engine=engine)  # pyright: ignore[reportArgumentType]
    require_engine(settings)
    runner = LocalRunner(settings)
    assert len(runner.time(CASE).mask_us) == 1
    assert runner.judge(CASE).is_passed
    assert runner.peak_memory_bytes >= peak_memory_bytes() > 10_000_000
    runner.close()


@pytest.mark.skipif(find_spec("xgrammar") is not None, reason="xgrammar is installed")
def test_an_engine_that_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'sureact\[xgrammar\]'"):
        require_engine(RunnerSettings(engine="xgrammar"))
