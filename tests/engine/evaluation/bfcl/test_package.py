"""The package is found or asked for by the command that installs it; its checker judges as it comes."""

import sys
from importlib.util import find_spec

import pytest
from tests.engine.evaluation.bfcl.bfcl_files import ROOT, WEATHER

from sureact.errors import ConfigError
from sureact.evaluation.bfcl import package
from sureact.evaluation.bfcl.package import data_folder, load_checker

needs_package = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed")


def test_without_the_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(package, "find_spec", nothing)
    with pytest.raises(ConfigError, match="pip install --no-deps bfcl-eval"):
        data_folder()


@needs_package
def test_the_checker_is_loaded_without_the_clients_of_vendors() -> None:
    load_checker()
    assert (data_folder() / "BFCL_v4_simple_python.json").is_file()
    assert "bfcl_eval.constants.model_config" not in sys.modules


@needs_package
def test_right_calls_pass_and_others_do_not() -> None:
    check = load_checker()
    answers = [{"weather.get": {"city": ["Oslo"], "days": ["", 1]}}]
    assert check([WEATHER], [{"weather.get": {"city": "oslo"}}], answers, "simple") == ""
    assert check([WEATHER], [{"weather.get": {"city": "Graz"}}], answers, "simple") != ""
    assert check([WEATHER], [{"weather.get": {}}], answers, "simple") != ""
    assert "number of functions" in check([WEATHER], [], answers, "simple")
    assert check([ROOT], [{"math_root": {"x": 9}}], [{"math_root": {"x": [9.0]}}], "simple") == ""
    both = [{"weather.get": {"city": ["Oslo"], "days": [""]}}, {"weather.get": {"city": ["Graz"], "days": [""]}}]
    calls = [{"weather.get": {"city": "Graz"}}, {"weather.get": {"city": "Oslo"}}]
    assert check([WEATHER], calls, both, "parallel") == ""


@needs_package
@pytest.mark.parametrize("missing", ["bfcl_eval.eval_checker.ast_eval.ast_checker", "bfcl_eval.constants.enums"])
def test_a_package_of_another_make_is_refused(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    load_checker.cache_clear()
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_checker()
    load_checker.cache_clear()
