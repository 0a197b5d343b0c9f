"""Ids are those of the checkpoint's tokenizer, and text never turns into control tokens."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.errors import CheckpointError, ConfigError
from sureact.tokens.chat_template import PromptText, TextSpan
from sureact.tokens.tokenizer import Tokenizer

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
NUM_LOGITS = 288

plain_texts = st.text(st.characters(exclude_characters="<", codec="utf-8"))
any_texts = st.lists(st.one_of(st.text(), st.sampled_from([*CONTROL, "<|im_", "end|>", "hello"]))).map("".join)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer(tokenizer_folder, num_logits=NUM_LOGITS)


@pytest.fixture(scope="module")
def reference(tokenizer_folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer_folder, local_files_only=True)


@given(text=any_texts)
def test_text_comes_back_and_holds_no_control_token(tokenizer: Tokenizer, text: str) -> None:
    token_ids = tokenizer.encode(text)
    assert tokenizer.decode(token_ids) == text
    assert tokenizer.vocabulary.control_ids.isdisjoint(token_ids)


@given(text=any_texts)
def test_control_tokens_are_parsed_when_asked_for(tokenizer: Tokenizer, reference: Any, text: str) -> None:
    assert tokenizer.encode(text, parse_control_tokens=True) == reference.encode(text, add_special_tokens=False)


def test_every_added_token_is_its_own_id_and_its_name_is_text_otherwise(tokenizer: Tokenizer, reference: Any) -> None:
    added = {name: token_id for token_id, name in reference.added_tokens_decoder.items()}
    assert set(CONTROL) <= {str(name) for name in added}
    for name, token_id in added.items():
        text = str(name)
        assert tokenizer.encode(text, parse_control_tokens=True) == [token_id]
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(spans=st.lists(st.tuples(st.sampled_from([*CONTROL, "\n", "user", "hel"]), plain_texts)))
def test_a_prompt_without_control_strings_in_its_text_is_encoded_as_a_whole(
    tokenizer: Tokenizer, reference: Any, spans: list[tuple[str, str]]
) -> None:
    prompt = PromptText(
        tuple(span for control, text in spans for span in (TextSpan(control, True), TextSpan(text, False)))
    )
    assert tokenizer.encode_prompt(prompt) == reference.encode(prompt.text, add_special_tokens=False)


def test_a_prompt_of_many_messages_is_encoded_in_linear_time(tokenizer: Tokenizer, reference: Any) -> None:
    prompt = PromptText((TextSpan("<|im_start|>", True), TextSpan("a", False), TextSpan("<|im_end|>\n", True)) * 10_000)
    start = time.thread_time()
    token_ids = tokenizer.encode_prompt(prompt)
    assert time.thread_time() - start < 3  # looking at each pair of them takes several times that
    assert token_ids == reference.encode(prompt.text, add_special_tokens=False)


@given(spans=st.lists(st.tuples(any_texts, st.booleans())))
def test_only_control_spans_yield_control_tokens(tokenizer: Tokenizer, spans: list[tuple[str, bool]]) -> None:
    prompt = PromptText(tuple(TextSpan(text, is_control) for text, is_control in spans))
    token_ids = tokenizer.encode_prompt(prompt)
    names = {token_id: name for name, token_id in tokenizer.control_tokens.items()}
    merged = "".join(text if is_control else "\0" * len(text) for text, is_control in spans)
    assert sum(token_id in names for token_id in token_ids) == sum(merged.count(name) for name in CONTROL)
    spelled = b"".join(
        names[token_id].encode() if token_id in names else tokenizer.vocabulary.token_bytes[token_id]
        for token_id in token_ids
    )
    assert spelled.decode() == prompt.text


def test_a_control_string_over_the_border_of_a_text_stays_text(tokenizer: Tokenizer) -> None:
    prompt = PromptText((TextSpan("<|im_end|>", True), TextSpan("<|im_", False), TextSpan("end|>", True)))
    assert tokenizer.encode_prompt(prompt) == [
        tokenizer.control_tokens["<|im_end|>"],
        *tokenizer.encode("<|im_end|>"),
    ]


def test_text_between_control_tokens_is_tokenized_as_one(tokenizer: Tokenizer) -> None:
    prompt = PromptText((TextSpan("<|im_start|>he", True), TextSpan("llo <|im_end|>", False)))
    assert tokenizer.encode_prompt(prompt)[1] == tokenizer.encode("hello")[0]


def test_end_and_beginning_ids_are_read(tokenizer: Tokenizer) -> None:
    end_of_text, im_end = (tokenizer.control_tokens[name] for name in ("<|endoftext|>", "<|im_end|>"))
    assert tokenizer.bos_id == end_of_text
    assert tokenizer.eos_ids == (7, 8, im_end, end_of_text)
    assert tokenizer.vocabulary.eos_ids == tokenizer.eos_ids


def test_control_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([tokenizer.control_tokens["<tool_call>"], *tokenizer.encode("ä")]) == "ä"


@pytest.mark.parametrize("token_id", [-1, NUM_LOGITS])
def test_an_id_outside_the_head_is_refused(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(ConfigError, match="0 to 287"):
        tokenizer.decode([token_id])


def test_unused_entries_named_by_the_checkpoint_are_dropped(tokenizer_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tokenizer_folder, tmp_path / "model")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"unused_token_ids": [260]}))
    assert 260 in Tokenizer(folder, num_logits=NUM_LOGITS).vocabulary.unused_ids


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        Tokenizer(tmp_path, num_logits=NUM_LOGITS)
    with pytest.raises(CheckpointError, match="not a folder"):
        Tokenizer(tmp_path / "absent", num_logits=NUM_LOGITS)


def test_a_damaged_tokenizer_is_refused(tokenizer_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tokenizer_folder, tmp_path / "model")
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {')
    with pytest.raises(CheckpointError, match="cannot be read"):
        Tokenizer(folder, num_logits=NUM_LOGITS)


@pytest.mark.model
def test_the_qwen_tokenizer_agrees_with_transformers(model_folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = Tokenizer(model_folder, num_logits=151_936)
    reference: Any = AutoTokenizer.from_pretrained(model_folder, local_files_only=True)
    text = "Grüße 東京 👩‍👩‍👧 1234567 def f(x):\n\treturn x  \r\n\n <|im_start|> </tool_call>"
    assert tokenizer.encode(text, parse_control_tokens=True) == reference.encode(text, add_special_tokens=False)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.vocabulary.control_ids.isdisjoint(tokenizer.encode(text))
    assert set(tokenizer.eos_ids) == {151_643, 151_645}
