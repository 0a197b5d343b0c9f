from pathlib import Path

import pytest

from sureact.agent.tool_file import load_tools
from sureact.errors import ToolDefinitionError


def write(folder: Path, text: str) -> Path:
    path = folder / "my_tools.py"
    path.write_text(text)
    return path


def test_the_list_TOOLS_is_taken(tmp_path: Path):  # noqa: N802
    path = write(tmp_path, "def a(x: int) -> int: return x\ndef b() -> int: return 1\nTOOLS = [b]\n")
    assert [tool.name for tool in load_tools(path)] == ["b"]


def test_without_it_the_public_functions_of_the_file_are_taken(tmp_path: Path):
    path = write(
        tmp_path, "from json import dumps\ndef a() -> int: return 1\ndef _b() -> int: return 2\nclass C: ...\n"
    )
    assert [tool.name for tool in load_tools(str(path))] == ["a"]


def test_annotations_written_as_text_are_resolved(tmp_path: Path):
    path = write(
        tmp_path,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
        "def a(p: P) -> int: return p.x\n",
    )
    assert load_tools(path)[0](p={"x": 3}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise ValueError('no key')\n", r"my_tools\.py, line 2: ValueError: no key"),
        ("def broken(:\n", r"my_tools\.py, line 1: SyntaxError"),
        ("import no_such_module_here\n", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("x = 1\n", "holds no tools"),
        ("TOOLS = 5\n", "must be a list"),
        ("def finish() -> int: return 1\n", "'finish'"),
        ("def a() -> int: return 1\nTOOLS = [a, a]\n", "Two tools"),
    ],
)
def test_a_file_that_gives_no_tools_says_why(tmp_path: Path, text: str, message: str):
    with pytest.raises(ToolDefinitionError, match=message):
        load_tools(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ToolDefinitionError, match="no tool file"):
        load_tools(tmp_path / "none.py")


def test_a_file_can_import_its_neighbors(tmp_path: Path):
    (tmp_path / "neighbor_of_my_tools.py").write_text("def a() -> int: return 7\n")
    path = write(tmp_path, "from neighbor_of_my_tools import a\nTOOLS = [a]\n")
    assert load_tools(path)[0]() == 7
