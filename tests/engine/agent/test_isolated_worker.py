import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.isolated_worker import answer, failure, load_module, load_tool, type_name
from sureact.agent.tool import Tool


def double(x: int) -> int:
    """Double."""
    return x * 2


def start(**changes: Any) -> dict[str, Any]:
    message = {"module": "json", "file": None, "qualname": "dumps", "name": "t", "args": {"obj": {}}, "path": []}
    return {**message, **changes}


def test_a_tool_is_loaded_by_the_name_of_its_module():
    assert load_tool(start())(obj=[1]) == "[1]"
    assert load_tool(start(qualname="JSONEncoder.default", args={"self": {}, "o": {}})).name == "t"


def test_a_module_that_no_import_finds_is_loaded_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "found_nowhere.py"
    file.write_text("VALUE = __name__\n")
    assert load_module("found_nowhere_else", str(file)).VALUE == "found_nowhere_else"
    assert load_module("__main__", str(file)).VALUE == "__sureact_main__"
    assert load_module("json", None) is json


def test_an_answer_is_text_or_an_error():
    assert answer(Tool(double), {"x": 2}) == {"text": "4"}
    error = answer(Tool(double, args={"x": {}}), {"x": None})
    assert (error["error"], error["types"][0]) == ("TypeError", "builtins.TypeError")


def test_an_error_names_its_classes():
    assert failure(ConnectionResetError("gone")) == {
        "error": "ConnectionResetError",
        "types": [type_name(kind) for kind in ConnectionResetError.__mro__],
        "message": "gone",
    }


def talk(*messages: Any) -> list[Any]:
    code = "from sureact.agent.isolated_worker import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    replies: list[Any] = []
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        replies.append(json.loads(process.stdout.readline()))
    process.stdin.close()
    process.stdout.close()
    assert process.wait(20) == 0
    return replies


def test_the_process_answers_until_its_input_ends():
    assert talk(start(), {"obj": {"a": 1}}, {"obj": None}) == [
        {"text": "ready"},
        {"text": '{"a": 1}'},
        {"text": "null"},
    ]


def test_a_module_that_cannot_be_loaded_is_told():
    (reply,) = talk(start(module="no_such_module_here"))
    assert reply["error"] == "ModuleNotFoundError"


def test_the_process_ends_with_its_input_while_a_tool_spins():
    code = "from sureact.agent.isolated_worker import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    spinning = start(module=__name__, file=__file__, qualname="spin", args={})
    process.stdin.write(json.dumps(spinning).encode() + b"\n" + b"{}\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"text": "ready"}
    process.stdin.close()
    process.stdout.close()
    assert process.wait(20) == 0


def spin() -> None:
    while True:
        pass
