"""Text to token ids and back, as the checkpoint's own tokenizer does it; text never becomes control tokens."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.errors import CheckpointError, ConfigError, UnsupportedModelError
from sureact.tokens.chat_template import ChatTemplate
from sureact.tokens.vocabulary import read_eos_ids, read_json_object, read_vocabulary

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import tokenizers

    from sureact.tokens.chat_template import PromptText


class Tokenizer:
    """The tokenizer of a model folder. Thread-safe.

    No beginning-of-sequence token is ever added: a chat template writes its own. A tokenizer that puts a space before
    a text (Llama 2) does so before each text given here, so pieces encoded apart differ from the whole there; those of
    Qwen, Llama 3 and SmolLM2 add nothing.

    Args:
        folder: folder with the tokenizer's files; nothing is fetched and no code in it is run.
        num_logits: rows of the model's head.

    Raises:
        CheckpointError: the files are missing or damaged.
        UnsupportedModelError: the tokenizer needs code of its own, or is of a kind that is not served.
    """

    def __init__(self, folder: str | os.PathLike[str], *, num_logits: int) -> None:
        folder = Path(folder)
        pretrained = _load_pretrained(folder)
        self._backend: tokenizers.Tokenizer = pretrained.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        added = self._backend.get_added_tokens_decoder()
        self._added_ids = frozenset(added)
        self.control_tokens: dict[str, int] = {
            token.content: token_id for token_id, token in sorted(added.items()) if token_id < num_logits
        }
        """Id per control token, such as `<|im_end|>`."""
        self.bos_id: int | None = pretrained.bos_token_id
        self.vocabulary = read_vocabulary(
            self._backend.to_str(),
            num_logits=num_logits,
            eos_ids=read_eos_ids(folder, tokenizer_eos_id=pretrained.eos_token_id, control_tokens=self.control_tokens),
            unused_ids=read_json_object(folder / "tokenizer_config.json").get("unused_token_ids", ()),
        )
        self.chat_template = self._read_chat_template(pretrained)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text."""
        return self.vocabulary.eos_ids

    def encode(self, text: str, *, parse_control_tokens: bool = False) -> list[int]:
        """Return the ids of a text.

        Args:
            text: any text.
            parse_control_tokens: whether `<|im_end|>` in the text becomes the control token of that name. When not,
                it is spelled out in ordinary tokens, so that text never steers the model.
        """
        token_ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        if parse_control_tokens or self._added_ids.isdisjoint(token_ids):
            return token_ids
        return self._plain_backend.encode(text, add_special_tokens=False).ids

    def encode_prompt(self, prompt: PromptText) -> list[int]:
        """Return the ids of a prompt; only strings wholly inside control spans become control tokens.

        What lies between two control tokens is tokenized as one text, whatever spans it comes from, so the ids are
        those of the plain tokenizer whenever the text spans hold no control strings.
        """
        text = prompt.text
        control_ranges = _control_ranges(prompt)
        encoding = self._backend.encode(text, add_special_tokens=False)
        found = [
            offsets
            for token_id, offsets in zip(encoding.ids, encoding.offsets, strict=True)
            if token_id in self._added_ids
        ]
        if all(_is_within(control_ranges, low, high) for low, high in found):
            return encoding.ids
        return self._encode_piecewise(text, control_ranges)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids: their bytes joined, invalid UTF-8 replaced by U+FFFD, control tokens left out.

        Raises:
            ConfigError: an id is not a row of the head.
        """
        num_logits = self.vocabulary.num_logits
        for token_id in token_ids:
            if not 0 <= token_id < num_logits:
                raise ConfigError(f"Token id {token_id} does not exist; ids of this model are 0 to {num_logits - 1}.")
        return b"".join(self.vocabulary.token_bytes[token_id] for token_id in token_ids).decode(errors="replace")

    def _encode_piecewise(self, text: str, control_ranges: list[tuple[int, int]]) -> list[int]:
        """Cut the text at the control tokens of its control ranges, and encode what lies between them as plain text."""
        token_ids: list[int] = []
        plain_start = 0
        for start, end in control_ranges:
            for match in self._control_pattern.finditer(text, start, end):
                token_ids += self.encode(text[plain_start : match.start()])
                token_ids.append(self.control_tokens[match.group()])
                plain_start = match.end()
        return token_ids + self.encode(text[plain_start:])

    @cached_property
    def _control_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.control_tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @cached_property
    def _plain_backend(self) -> tokenizers.Tokenizer:
        """The same tokenizer without control tokens. Built when a text first holds one: it takes half a second."""
        import tokenizers

        plain: dict[str, Any] = json.loads(self._backend.to_str())
        control_ids = self._added_ids
        plain["added_tokens"] = []
        plain["post_processor"] = None  # it may name control tokens, and adds nothing here
        vocab: dict[str, int] = plain["model"]["vocab"]
        plain["model"]["vocab"] = {token: token_id for token, token_id in vocab.items() if token_id not in control_ids}
        return tokenizers.Tokenizer.from_str(json.dumps(plain))

    def _read_chat_template(self, pretrained: Any) -> ChatTemplate | None:
        source = pretrained.chat_template
        if isinstance(source, dict):
            source = source.get("default")
        if source is None:
            return None
        special_tokens = {name: str(token) for name, token in pretrained.special_tokens_map.items()}
        return ChatTemplate(source, special_tokens=special_tokens, control_tokens=tuple(self.control_tokens))


def _is_within(ranges: list[tuple[int, int]], low: int, high: int) -> bool:
    """Whether one of several ranges, which are in order and apart, holds another one."""
    index = bisect_right(ranges, low, key=itemgetter(0)) - 1
    return index >= 0 and high <= ranges[index][1]


def _load_pretrained(folder: Path) -> Any:
    from transformers import AutoTokenizer

    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; a tokenizer is read from the folder of its model.")
    try:
        pretrained: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # The loader lets through whatever a damaged file causes; tokenizers itself raises bare Exception.
    except Exception as error:
        raise CheckpointError(f"The tokenizer in {folder} cannot be read: {error}") from error
    if not hasattr(pretrained, "backend_tokenizer"):
        raise UnsupportedModelError(
            f"The tokenizer in {folder} ({type(pretrained).__name__}) has no tokenizer.json form, which is needed here."
        )
    return pretrained


def _control_ranges(prompt: PromptText) -> list[tuple[int, int]]:
    """Return the character ranges of a prompt in which control tokens are recognized; neighbors are merged."""
    ranges: list[tuple[int, int]] = []
    position = 0
    for span in prompt.spans:
        end = position + len(span.text)
        if span.is_control:
            start = ranges.pop()[0] if ranges and ranges[-1][1] == position else position
            ranges.append((start, end))
        position = end
    return ranges
