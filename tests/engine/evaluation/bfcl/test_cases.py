"""Cases are read from the package's files."""

from pathlib import Path

import pytest
from tests.engine.evaluation.bfcl.bfcl_files import write_files

from sureact.errors import ConfigError
from sureact.evaluation.bfcl.cases import CATEGORIES, read_questions


def test_every_category_is_read_with_its_answers(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "data")
    read = {category: read_questions(folder, category) for category in CATEGORIES}
    assert [len(questions) for questions in read.values()] == [2, 1, 1, 1, 1, 1]
    first = read["simple"][0]
    assert first.id == "simple_python_0"
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert first.answers[0] == {"weather.get": {"city": ["Oslo"], "days": ["", 1]}}
    assert first.wants_call
    assert not read["irrelevance"][0].wants_call
    assert read["irrelevance"][0].answers == ()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"BFCL_v4_multiple.json cannot be read.*anew"):
        read_questions(tmp_path, "multiple")


@pytest.mark.parametrize("text", ["{}\n", '{"id": "x", "question": []}\n', "[1]\n"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "BFCL_v4_irrelevance.json").write_text(text)
    with pytest.raises(ConfigError, match="not of the form"):
        read_questions(tmp_path, "irrelevance")


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "BFCL_v4_irrelevance.json").write_text("nonsense\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_questions(tmp_path, "irrelevance")
