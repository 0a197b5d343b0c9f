"""The layout rules that a machine can hold: where files lie, what they are called, how long they are."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = {"engine/sureact": "tests/engine", "kernels/sureact_kernels": "tests/kernels"}
DRAWER_NAMES = {"base", "common", "helpers", "misc", "util", "utils"}
NOT_OPS = {"__init__", "arguments", "attention_plan", "dispatch", "errors", "testing", "trial"}
PARTS_OF_TRITON_OPS = {
    "aot",
    "decode_attention",
    "interpreter",
    "large_m_product",
    "matrix_operand",
    "prefill_attention",
    "product_cases",
    "product_shapes",
    "product_tile",
    "small_m_product",
}
OF_THE_WHOLE = {
    "tests/engine/agent/test_approved_calls.py",
    "tests/engine/agent/test_dspy_conformance.py",
    "tests/engine/agent/test_dspy_module_conformance.py",
    "tests/engine/agent/test_react_v2_conformance.py",
    "tests/engine/agent/test_resumed_runs.py",
    "tests/engine/execution/test_interpreted_model.py",
    "tests/engine/server/browser/test_agent_page.py",
    "tests/engine/server/browser/test_chat_page.py",
    "tests/engine/server/browser/test_schema_page.py",
    "tests/engine/server/browser/test_whole_page.py",
    "tests/engine/server/test_bad_requests.py",
    "tests/engine/server/test_disconnects.py",
    "tests/engine/server/test_dspy_client.py",
    "tests/engine/server/test_langchain_client.py",
    "tests/engine/server/test_openai_client.py",
    "tests/engine/server/test_reported_faults.py",
    "tests/engine/server/test_server_soak.py",
    "tests/engine/server/test_streaming.py",
    "tests/engine/test_soak.py",
}
"""Tests of no single file."""
MAX_FILE_LINES = 400
MAX_LINE_LENGTH = 120
MAX_FUNCTION_LINES = 50
MAX_TRITON_FUNCTION_LINES = 100

SOURCES = [path for root in SOURCE_ROOTS for path in sorted((ROOT / root).rglob("*.py"))]
PYTHON_FILES = [
    path
    for folder in ("engine", "kernels", "tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_path_of(source: Path) -> Path:
    """Where the tests of a source file lie."""
    root = next(root for root in SOURCE_ROOTS if source.is_relative_to(ROOT / root))
    folder = source.relative_to(ROOT / root).parent
    return ROOT / SOURCE_ROOTS[root] / folder / f"test_{source.name}"


test_path_of.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]  only its name begins like a test's


def is_version_of_an_op(path: Path) -> bool:
    return path.parent.name in ("cpu", "triton") and (path.parent.parent / path.name).exists()


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def statements_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """What a function does: its body without docstring and ellipsis."""
    return [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def test_source_roots_tests_and_benchmarks_are_no_packages() -> None:
    """With one, `kernels` becomes importable and shadows an unrelated package that transformers asks for."""
    patterns = ("engine/__init__.py", "kernels/__init__.py", "tests/**/__init__.py", "benchmarks/**/__init__.py")
    assert [name_of(path) for pattern in patterns for path in ROOT.glob(pattern)] == []


def test_no_file_is_a_drawer() -> None:
    assert [name_of(path) for path in PYTHON_FILES if path.stem.removeprefix("test_") in DRAWER_NAMES] == []


def test_an_op_has_its_contract_its_test_and_its_benchmark() -> None:
    ops = {path.stem for path in (ROOT / "kernels/sureact_kernels").glob("*.py")} - NOT_OPS
    missing = [
        path
        for op in sorted(ops)
        for path in (f"tests/kernels/test_{op}.py", f"benchmarks/kernels/bench_{op}.py")
        if not (ROOT / path).exists()
    ]
    assert missing == []
    assert {
        path.stem for path in (ROOT / "kernels/sureact_kernels/triton").glob("[!_]*.py")
    } <= ops | PARTS_OF_TRITON_OPS
    assert {path.stem for path in (ROOT / "kernels/sureact_kernels/cpu").glob("*.cpp")} <= ops | {"arena"}


def test_every_source_file_that_does_something_has_a_test_file() -> None:
    """A file of declarations only (interfaces, constants) has nothing to test."""
    missing = [
        name_of(path)
        for path in SOURCES
        if path.name != "__init__.py"
        and not is_version_of_an_op(path)  # tested with the reference, in the op's own test file
        and not test_path_of(path).exists()
        and any(statements_of(function) for function in functions_of(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    assert missing == []


def test_every_test_file_mirrors_a_source_file() -> None:
    expected = {test_path_of(path) for path in SOURCES}
    found = {path for root in SOURCE_ROOTS.values() for path in (ROOT / root).rglob("test_*.py")}
    assert set(map(name_of, found - expected)) == OF_THE_WHOLE


def test_files_and_functions_stay_short() -> None:
    """Docstrings do not count towards the length of a function."""
    too_long: list[str] = []
    for path in PYTHON_FILES:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MAX_FILE_LINES:
            too_long.append(f"{name_of(path)}: {text.count(chr(10))} lines, at most {MAX_FILE_LINES}")
        limit = MAX_TRITON_FUNCTION_LINES if path.parent.name == "triton" else MAX_FUNCTION_LINES
        for function in functions_of(ast.parse(text)):
            statements = statements_of(function)
            length = (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0
            if length > limit:
                too_long.append(f"{name_of(path)}:{function.lineno} {function.name}: {length} lines, at most {limit}")
    for path in (ROOT / "kernels").rglob("*.[ch]*"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.suffix in (".cpp", ".h") else []
        if len(lines) > MAX_FILE_LINES or any(len(line) > MAX_LINE_LENGTH for line in lines):
            too_long.append(name_of(path))
    assert too_long == []


def test_no_tracked_file_names_a_machine() -> None:
    """Paths of one machine in the repository break on every other one."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listing = subprocess.run(git, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    machine_path = re.compile("/(work|tmp/w|opt/wheels|opt/pypi|root|home/[a-z]+)/|pythonhosted" + r"\.org")
    named: list[str] = []
    for name in filter(None, listing.stdout.split("\0")):
        path = ROOT / name
        if path == Path(__file__) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        named += [f"{name}: {match.group()}" for match in machine_path.finditer(text)]
    assert named == []
