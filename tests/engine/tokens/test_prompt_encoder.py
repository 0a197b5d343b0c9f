"""Prompts in every spelling become ids that the model has, or are refused with what to do."""

from typing import Any

import pytest

from sureact.engine import Engine
from sureact.errors import ConfigError
from sureact.tokens.prompt_encoder import PromptEncoder


@pytest.fixture(scope="module")
def encoder(tiny_engine: Engine) -> PromptEncoder:
    return PromptEncoder(tiny_engine._tokenizer, "tiny")  # pyright: ignore[reportPrivateUsage]


def test_text_ids_and_a_rendered_prompt_are_read(tiny_engine: Engine, encoder: PromptEncoder) -> None:
    ids = encoder.encode("abc")
    assert tiny_engine.decode(ids) == "abc"
    assert encoder.encode(ids) == encoder.encode(tuple(ids)) == ids
    rendered = tiny_engine.render_chat([{"role": "user", "content": "hi"}])
    assert encoder.encode(rendered) == encoder.encode(rendered.text, parse_control_tokens=True)


def test_ids_are_copied(encoder: PromptEncoder) -> None:
    ids = [1, 2]
    encoder.encode(ids).append(3)
    assert ids == [1, 2]


def test_a_control_token_in_a_text_is_text_unless_asked_for(encoder: PromptEncoder) -> None:
    assert len(encoder.encode("<|im_end|>")) == len("<|im_end|>")
    assert len(encoder.encode("<|im_end|>", parse_control_tokens=True)) == 1


def test_a_piece_may_be_empty_and_a_whole_prompt_may_not(encoder: PromptEncoder) -> None:
    assert encoder.encode("") == encoder.encode([]) == []
    for prompt in ("", []):
        with pytest.raises(ConfigError, match="prompt is empty"):
            encoder.encode_whole(prompt)
    assert encoder.encode_whole("abc") == encoder.encode("abc")


def test_a_text_that_ends_in_a_blank_is_refused_and_a_newline_is_fine(encoder: PromptEncoder) -> None:
    with pytest.raises(ConfigError, match=r"ends in a blank: 'Answer: '.*newline is fine"):
        encoder.encode("Answer: ")
    assert encoder.encode("Answer:\n")


def test_a_text_without_a_spelling_in_utf8_is_refused(encoder: PromptEncoder) -> None:
    with pytest.raises(ConfigError, match="surrogate"):
        encoder.encode("a\udc80b")


@pytest.mark.parametrize("token_id", [-1, 288, 270, 1.0, True, "a", None])
def test_what_is_no_id_of_the_model_is_refused_with_the_range(encoder: PromptEncoder, token_id: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{token_id!r} is not a token id of tiny; ids go from 0 to 287, 27 of them"):
        encoder.encode([1, token_id])


@pytest.mark.parametrize("prompt", [None, 7, {1, 2}, iter([1])])
def test_what_is_no_prompt_is_refused(encoder: PromptEncoder, prompt: Any) -> None:
    with pytest.raises(ConfigError, match="must be text, token ids, or what render_chat returns"):
        encoder.encode(prompt)
