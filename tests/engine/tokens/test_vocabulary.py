"""Every id has its bytes, and control and unused ids are told apart by the checkpoint alone."""

import json
import time
from pathlib import Path

import pytest

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.tokens.vocabulary import read_eos_ids, read_json_object, read_vocabulary


def byte_fallback_json() -> str:
    vocab = {"<unk>": 0, "</s>": 1, "<0xE2>": 2, "▁the": 3, "ä": 4, "<0x0A>": 5, "[PAD6]": 6}
    return json.dumps(
        {
            "added_tokens": [{"id": 0, "content": "<unk>"}, {"id": 1, "content": "</s>"}],
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
            "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        }
    )


def test_byte_level_tokens_are_read_as_their_bytes(tokenizer_folder: Path) -> None:
    vocabulary = read_vocabulary((tokenizer_folder / "tokenizer.json").read_text(), num_logits=288)
    singles = [token for token in vocabulary.token_bytes if len(token) == 1]
    assert sorted(singles) == [bytes([byte]) for byte in range(256)]
    assert {b" w", b"hello", b"\n\n", "ä".encode()} <= set(vocabulary.token_bytes)


def test_byte_fallback_tokens_are_read_as_their_bytes() -> None:
    vocabulary = read_vocabulary(byte_fallback_json(), num_logits=7)
    assert vocabulary.token_bytes == (b"", b"", b"\xe2", b" the", "ä".encode(), b"\n", b"[PAD6]")
    assert vocabulary.control_ids == {0, 1}


def test_rows_without_a_token_are_unused_and_names_decide_nothing() -> None:
    assert read_vocabulary(byte_fallback_json(), num_logits=9).unused_ids == {7, 8}


def test_entries_that_the_checkpoint_declares_unused_leave_the_tokenizer_too() -> None:
    vocabulary = read_vocabulary(byte_fallback_json(), num_logits=7, unused_ids=[6])
    assert vocabulary.unused_ids == {6}
    assert vocabulary.token_bytes[6] == b""
    assert vocabulary.tokenizer_json is not None
    assert "[PAD6]" not in vocabulary.tokenizer_json


def test_tokens_beyond_the_head_are_left_out() -> None:
    vocabulary = read_vocabulary(byte_fallback_json(), num_logits=4, eos_ids=[1, 6])
    assert (vocabulary.num_logits, vocabulary.eos_ids) == (4, (1,))


def test_the_fingerprint_follows_the_content() -> None:
    text = byte_fallback_json()
    same = {read_vocabulary(text, num_logits=7, eos_ids=[1]).fingerprint for _ in range(2)}
    other = {
        read_vocabulary(text, num_logits=8, eos_ids=[1]).fingerprint,
        read_vocabulary(text, num_logits=7, eos_ids=[1, 0]).fingerprint,
        read_vocabulary(text, num_logits=7, eos_ids=[1], unused_ids=[6]).fingerprint,
    }
    assert len(same) == 1
    assert len(same | other) == 4


def test_end_ids_are_united_over_all_sources(tokenizer_folder: Path) -> None:
    control_tokens = {"<|endoftext|>": 20, "<|im_end|>": 21, "<|im_start|>": 22}
    eos_ids = read_eos_ids(tokenizer_folder, tokenizer_eos_id=9, control_tokens=control_tokens)
    assert eos_ids == (7, 8, 100_000, 9, 20, 21)


def test_end_ids_are_read_from_a_nested_text_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"eos_token_id": [3, 4]}}')
    assert read_eos_ids(tmp_path, tokenizer_eos_id=None, control_tokens={}) == (3, 4)


def test_a_damaged_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_json_object(tmp_path / "config.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {}}'])
def test_a_damaged_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        read_vocabulary(text, num_logits=4)


@pytest.mark.parametrize("part", [{"model": {"type": "WordPiece"}}, {"decoder": {"type": "WordPiece"}}])
def test_other_kinds_of_tokenizers_are_refused_by_name(part: dict[str, object]) -> None:
    with pytest.raises(UnsupportedModelError, match="WordPiece"):
        read_vocabulary(json.dumps(json.loads(byte_fallback_json()) | part), num_logits=7)


@pytest.mark.model
def test_the_qwen_vocabulary_is_whole(model_folder: Path) -> None:
    text = (model_folder / "tokenizer.json").read_text(encoding="utf-8")
    start = time.thread_time()
    vocabulary = read_vocabulary(text, num_logits=151_936)
    assert time.thread_time() - start < 5  # half a second on an idle machine
    assert vocabulary.unused_ids == frozenset(range(151_665, 151_936))
    assert vocabulary.control_ids == frozenset(range(151_643, 151_665))
    assert all(vocabulary.token_bytes[:151_643])
