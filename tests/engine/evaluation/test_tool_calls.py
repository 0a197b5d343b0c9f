import json
import tarfile
from pathlib import Path

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.tool_calls import own_tool_calls, own_tools, tool_call_tasks

NAMES = ("Glaiveai2K---a.json", "BFCL_simple_1.json", "Github---c.json", "Glaiveai2K---d.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_text(json.dumps({"schema": {"const": name}, "tests": []}))
    return tmp_path


def test_only_schemas_of_function_calls_are_taken(folder: Path) -> None:
    assert [task.name for task in tool_call_tasks(folder)] == ["BFCL_simple_1", "Glaiveai2K---a", "Glaiveai2K---d"]


def test_an_archive_gives_what_its_folder_gives(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    archive = tmp_path_factory.mktemp("archive") / "files.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, "maskbench")
    assert tool_call_tasks(archive) == tool_call_tasks(folder)


def test_fewer_are_taken_evenly(folder: Path) -> None:
    assert [task.name for task in tool_call_tasks(folder, 2)] == ["BFCL_simple_1", "Glaiveai2K---a"]
    assert [task.name for task in tool_call_tasks(None, 3)] == [task.name for task in own_tool_calls()[::4]]
    assert len(tool_call_tasks(None, 1000)) == len(own_tools())


def test_the_prompt_shows_the_schema() -> None:
    for task in own_tool_calls():
        (message,) = task.messages
        assert task.schema_text in message["content"]


@pytest.mark.parametrize("content", ["[", '{"tests": []}', "3"])
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / NAMES[0]).write_text(content)
    with pytest.raises(ConfigError, match=r"schemas of .* cannot be read"):
        tool_call_tasks(tmp_path)


def test_a_path_without_function_calls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file named Glaiveai2K"):
        tool_call_tasks(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        tool_call_tasks(tmp_path / "nowhere")
