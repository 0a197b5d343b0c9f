from pathlib import Path

import pytest
from benchmarks.quality import reference
from benchmarks.quality.reference import reference_texts

from sureact.errors import ConfigError
from sureact.tokens.tokenizer import Tokenizer


@pytest.fixture
def tokenizer(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    return Tokenizer(tiny_folder, num_logits=288)


def test_texts_are_generated_once_and_then_read(
    tiny_folder: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens: list[int] = []

    def generate(model: str, prompt_ids: list[list[int]], num_tokens: int) -> list[list[int]]:
        lens.append(len(prompt_ids))
        return [[index] * num_tokens for index in range(len(prompt_ids))]

    monkeypatch.setattr(reference, "_generate", generate)
    first = reference_texts(str(tiny_folder), tokenizer, num_prompts=6, num_tokens=3)
    assert reference_texts(str(tiny_folder), tokenizer, num_prompts=6, num_tokens=3) == first
    assert lens == [6]
    assert len(list((tmp_path / "quality").iterdir())) == 1
    assert sorted(text.continuation_ids[0] for text in first) == [0, 1, 2, 3, 4, 5]
    assert [text.prompt_ids for text in first] == sorted(text.prompt_ids for text in first)


def test_a_model_without_a_chat_template_is_refused(
    tiny_folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", None)
    with pytest.raises(ConfigError, match="chat template"):
        reference_texts(str(tiny_folder), tokenizer, num_prompts=1, num_tokens=1)
