from pathlib import Path

import pytest

from sureact.errors import CheckpointError
from sureact.evaluation.conformance.vocabularies import byte_vocabulary, read_case_vocabulary


def test_bytes_cut_a_text_in_the_only_way_there_is() -> None:
    bytes_only = read_case_vocabulary(None)
    assert bytes_only.encode("é!") == [0xC3, 0xA9, 0x21]
    assert bytes_only.num_bytes(bytes_only.encode("é!")) == 3
    assert bytes_only.vocabulary.num_logits == 257
    assert byte_vocabulary().vocabulary.fingerprint == bytes_only.vocabulary.fingerprint


def test_a_models_folder_brings_its_tokens(tiny_folder: Path) -> None:
    vocabulary = read_case_vocabulary(tiny_folder)
    token_ids = vocabulary.encode('{"a": 1}')
    assert b"".join(vocabulary.vocabulary.token_bytes[token_id] for token_id in token_ids) == b'{"a": 1}'
    assert vocabulary.num_bytes(token_ids) == 8


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        read_case_vocabulary(tmp_path)
