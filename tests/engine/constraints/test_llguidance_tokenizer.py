"""Text is tokenized as text, whatever control token it spells and whatever the model's tokenizer does to it."""

import json
from typing import Any

import pytest

from sureact.constraints.llguidance_tokenizer import build_tokenizer, control_token_id
from sureact.errors import ConfigError
from sureact.tokens.vocabulary import Vocabulary, read_vocabulary

WORDS = ("▁", "a", "b", "ab", "▁ab", "é", "\u0301", "e", "<", "/", "s", ">")
MERGES = (["a", "b"], ["▁", "ab"])


def sentencepiece_json(**parts: Any) -> str:
    """A tokenizer with byte fallback that writes a space before the first word; `</s>` is an entry of its model."""
    names = ["</s>", *(f"<0x{value:02X}>" for value in range(256)), *WORDS]
    prepend = {"type": "Prepend", "prepend": "▁"}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    model = {"type": "BPE", "vocab": {name: i for i, name in enumerate(names)}, "merges": MERGES, "byte_fallback": True}
    tokenizer = {
        "version": "1.0",
        "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]},
        "decoder": {"type": "ByteFallback"},
        "model": model,
    }
    return json.dumps(tokenizer | parts)


def test_text_that_spells_a_control_token_holds_none(named_vocabulary: Vocabulary) -> None:
    tokenizer = build_tokenizer(named_vocabulary)
    for text in ("<tool_call>", "x[TOOL]y", "<|im_end|>"):
        assert tokenizer.tokenize_str(text) == list(text.encode())


def test_control_tokens_are_special_and_found_by_their_whole_name(named_vocabulary: Vocabulary) -> None:
    tokenizer = build_tokenizer(named_vocabulary)
    assert [tokenizer.is_special_token(token_id) for token_id in range(254, 262)] == [False] + 7 * [True]
    assert control_token_id(tokenizer, "<tool_call>") == 257
    assert control_token_id(tokenizer, "[TOOL]") == 259
    assert control_token_id(tokenizer, "<tool") is None
    assert control_token_id(tokenizer, "a") is None


def test_no_space_is_put_before_the_text() -> None:
    vocabulary = read_vocabulary(sentencepiece_json(), num_logits=300, eos_ids=[0])
    tokens = [vocabulary.token_bytes[i] for i in build_tokenizer(vocabulary).tokenize_str("ab ab")]
    assert tokens == [b"ab", b" ab"]


def test_an_end_that_is_an_entry_like_others_is_no_text() -> None:
    vocabulary = read_vocabulary(sentencepiece_json(), num_logits=300, eos_ids=[0])
    tokenizer = build_tokenizer(vocabulary)
    assert tokenizer.is_special_token(0)
    assert [vocabulary.token_bytes[i] for i in tokenizer.tokenize_str("</s>")] == [b"<", b"/", b"s", b">"]


def test_characters_that_the_model_would_normalize_stay_what_they_are() -> None:
    vocabulary = read_vocabulary(sentencepiece_json(normalizer={"type": "NFC"}), num_logits=300, eos_ids=[0])
    token_ids = build_tokenizer(vocabulary).tokenize_str("e\u0301")
    assert b"".join(vocabulary.token_bytes[i] for i in token_ids) == "e\u0301".encode()


def test_tokens_beyond_the_head_are_not_used() -> None:
    vocabulary = read_vocabulary(sentencepiece_json(), num_logits=260, eos_ids=[0])
    assert build_tokenizer(vocabulary).tokenize_str("ab") == [258, 259]


@pytest.mark.parametrize("added_tokens", [None, []])
def test_a_tokenizer_may_have_no_added_tokens(added_tokens: list[Any] | None) -> None:
    text = sentencepiece_json(added_tokens=added_tokens)
    assert build_tokenizer(read_vocabulary(text, num_logits=300, eos_ids=[0])).vocab_size == 300


def test_without_a_tokenizer_the_longest_token_is_taken(vocabulary: Vocabulary) -> None:
    assert build_tokenizer(vocabulary).tokenize_str("abcab") == [261, 260]


def test_bytes_that_no_token_covers_end_the_text() -> None:
    narrow = Vocabulary(
        token_bytes=(b"a", b""),
        control_ids=frozenset({1}),
        unused_ids=frozenset(),
        eos_ids=(1,),
        tokenizer_json=None,
        fingerprint="a",
    )
    assert build_tokenizer(narrow).tokenize_str("aba") == [0]


def test_a_vocabulary_without_an_end_is_refused() -> None:
    endless = Vocabulary(
        token_bytes=(b"a",),
        control_ids=frozenset(),
        unused_ids=frozenset(),
        eos_ids=(),
        tokenizer_json=None,
        fingerprint="endless",
    )
    with pytest.raises(ConfigError, match="end-of-sequence"):
        build_tokenizer(endless)
