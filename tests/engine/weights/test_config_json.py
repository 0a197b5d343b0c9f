from pathlib import Path

import pytest

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.config_json import (
    architectures,
    read_float,
    read_int,
    read_json_object,
    read_token_ids,
    refuse_remote_code,
)


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "not valid JSON"), (b"[]", "JSON object"), (b"\xff", "not valid")]
)
def test_a_file_that_is_no_json_object_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_json_object(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        read_json_object(tmp_path / "config.json")


def test_the_first_qwen_is_refused_with_its_successor() -> None:
    with pytest.raises(UnsupportedModelError, match=r"QWenLMHeadModel .* Qwen2\.5"):
        refuse_remote_code({"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "auto_map": {}})


def test_remote_code_is_refused_by_the_name_of_the_architecture() -> None:
    with pytest.raises(UnsupportedModelError, match="Foo runs only with code"):
        refuse_remote_code({"architectures": ["Foo"], "auto_map": {"AutoModelForCausalLM": "modeling.Foo"}})
    refuse_remote_code({"architectures": ["Foo"]})


def test_architectures_may_be_absent() -> None:
    assert architectures({}) == []
    assert architectures({"architectures": ["Foo"]}) == ["Foo"]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8"])
def test_a_size_that_is_no_whole_number_above_zero_is_refused(value: object) -> None:
    with pytest.raises(CheckpointError, match="hidden_size"):
        read_int({"hidden_size": value}, "hidden_size", 8)


def test_a_missing_size_takes_its_default_or_is_refused() -> None:
    assert read_int({"head_dim": None}, "head_dim", 8) == 8
    with pytest.raises(CheckpointError, match="hidden_size is None"):
        read_int({}, "hidden_size")


def test_a_number_that_is_none_is_refused() -> None:
    assert read_float({"eps": 1}, "eps", 2.0) == 1.0
    with pytest.raises(CheckpointError, match="eps"):
        read_float({"eps": "1"}, "eps", 2.0)


def test_token_ids_are_read_in_each_spelling() -> None:
    assert read_token_ids({}, "eos_token_id") == ()
    assert read_token_ids({"eos_token_id": None}, "eos_token_id") == ()
    assert read_token_ids({"eos_token_id": 0}, "eos_token_id") == (0,)
    assert read_token_ids({"eos_token_id": [1, 2]}, "eos_token_id") == (1, 2)
    with pytest.raises(CheckpointError, match="eos_token_id"):
        read_token_ids({"eos_token_id": ["x"]}, "eos_token_id")
