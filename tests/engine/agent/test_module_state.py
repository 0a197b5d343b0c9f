import json
from pathlib import Path
from typing import Any

import pytest

from sureact import __version__
from sureact.agent.module_state import check_names, read_state, restored_signature, signature_state, write_state
from sureact.agent.signature import Signature
from sureact.errors import ModuleStateError

SIGNATURE = Signature("question, k: int -> answer", "Be brief.")


def written(path: Path, **changes: Any) -> Path:
    content = {"metadata": {"state_version": 1, "dependency_versions": {}}, "state": {}, **changes}
    path.write_text(json.dumps(content))
    return path


def test_what_is_written_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    state = {"a": {"demos": [{"q": "汉 \ud83d"}], "n": 1}}
    write_state(tmp_path / "s.json", state, save_program=False)
    assert read_state(tmp_path / "s.json", allow_pickle=False) == state
    assert caplog.text == ""
    assert "汉" in (tmp_path / "s.json").read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["s.json"]


def test_a_failed_write_leaves_the_older_file(tmp_path: Path):
    write_state(tmp_path / "s.json", {"a": 1}, save_program=False)
    for broken in ({"a": object()}, {"a": float("nan")}):
        with pytest.raises(ModuleStateError, match="cannot be written as JSON"):
            write_state(tmp_path / "s.json", broken, save_program=False)
    assert read_state(tmp_path / "s.json", allow_pickle=False) == {"a": 1}
    with pytest.raises(ModuleStateError, match="cannot be written: No such file"):
        write_state(tmp_path / "none" / "s.json", {}, save_program=False)


def test_pickles_are_refused_with_the_reason(tmp_path: Path):
    for path, save_program in (("m.pkl", False), ("m.pickle", False), ("folder", True)):
        with pytest.raises(ModuleStateError, match="reading it can run any code"):
            write_state(tmp_path / path, {}, save_program=save_program)
    for path, allow_pickle in (("m.pkl", True), ("m.pkl", False), ("m.json", True)):
        with pytest.raises(ModuleStateError, match="reading it can run any code"):
            read_state(tmp_path / path, allow_pickle=allow_pickle)
    with pytest.raises(ModuleStateError, match=r"its name must end in \.json"):
        write_state(tmp_path / "m.yaml", {}, save_program=False)


def test_other_versions_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    versions = {"python": "2.7", "sureact": __version__}
    path = written(tmp_path / "s.json", metadata={"state_version": 1, "dependency_versions": versions})
    assert read_state(path, allow_pickle=False) == {}
    (record,) = caplog.records
    assert "was saved with python 2.7, and this is 3." in record.getMessage()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metadata": {"state_version": 2}}, "has the version 2; this sureact reads up to 1"),
        ({"metadata": {"state_version": "1"}}, "has the version 1;"),
        (
            {"metadata": {"dependency_versions": {"dspy": "3.4.1"}}},
            "was not written by sureact. To take over a program",
        ),
        ({"state": []}, "was not written by sureact"),
    ],
)
def test_files_of_others_are_refused(tmp_path: Path, changes: dict[str, Any], reason: str):
    with pytest.raises(ModuleStateError, match=reason):
        read_state(written(tmp_path / "s.json", **changes), allow_pickle=False)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(ModuleStateError, match="cannot be read: No such file"):
        read_state(tmp_path / "s.json", allow_pickle=False)
    for content in (b"{", b"\xff", b"[]"):
        (tmp_path / "s.json").write_bytes(content)
        with pytest.raises(ModuleStateError, match=r"is not JSON|was not written"):
            read_state(tmp_path / "s.json", allow_pickle=False)


def test_a_signature_comes_back_with_its_texts():
    changed = SIGNATURE.with_instructions("Be long.").with_descriptions({"k": "how many"})
    restored = restored_signature(SIGNATURE, json.loads(json.dumps(signature_state(changed))), "p")
    assert (restored.instructions, restored.inputs["k"].desc) == ("Be long.", "how many")
    assert restored.inputs["k"].annotation is int


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (signature_state(Signature("question -> answer")), r"of p is one of the fields \['question', 'answer'\]"),
        ({"instructions": "x"}, "The signature of p in the state is malformed"),
        ({"instructions": "x", "fields": [{"name": "question"}]}, "malformed"),
        (None, "malformed"),
    ],
)
def test_the_state_of_other_fields_is_refused(state: Any, reason: str):
    with pytest.raises(ModuleStateError, match=reason):
        restored_signature(SIGNATURE, state, "p")


def test_names_must_be_the_same():
    check_names(["b", "a"], ["a", "b"])
    with pytest.raises(ModuleStateError, match=r"lacks the predictors \['a'\], and has \['c'\] in addition"):
        check_names(["b", "c"], ["a", "b"])
