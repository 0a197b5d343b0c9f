"""The front door: what `import sureact` offers, and how little it costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sureact

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "outlines", "llguidance", "triton", "numpy", "jinja2", "pydantic")


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_public_names_are_sorted() -> None:
    assert sureact.__all__ == sorted(set(sureact.__all__))


@pytest.mark.parametrize("name", sureact.__all__)
def test_a_public_name_is_importable_and_knows_its_name(name: str) -> None:
    assert getattr(sureact, name).__name__ == name


def test_public_names_are_all_that_is_offered() -> None:
    assert set(dir(sureact)) == {*sureact.__all__, "__version__"}
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(sureact, "nonsense")  # noqa: B009  a plain attribute would be a type error


def test_every_error_is_public() -> None:
    from sureact import errors

    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes <= set(sureact.__all__)


def test_what_type_checkers_see_is_what_is_offered() -> None:
    tree = ast.parse(Path(sureact.__file__).read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for node in guard.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == sureact.__all__


def test_importing_sureact_loads_nothing_heavy() -> None:
    assert run_python(f"import sys, sureact; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_errors_and_parameters_load_nothing_heavy() -> None:
    code = (
        f"import sys; from sureact import SamplingParams, ConfigError; print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_importing_the_agent_loads_no_torch() -> None:
    code = "import sys; from sureact import ReAct, Tool, Signature; print('torch' in sys.modules)"
    assert run_python(code) == "False"


def test_importing_sureact_asks_no_gpu() -> None:
    code = "import torch, sureact, sureact_kernels; print(torch.cuda.is_initialized())"
    assert run_python(code) == "False"


def test_kernels_know_nothing_of_the_engine() -> None:
    importers = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "kernels").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "sureact" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sureact")
    ]
    assert importers == []
