"""Which bytes each token id stands for, and which ids are not text. Built once per model."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sureact.errors import CheckpointError, UnsupportedModelError

_END_TOKENS = ("<|endoftext|>", "<|im_end|>")
"""End tokens taken by name: a config converted from GGUF keeps one of the two that Qwen models emit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """The token ids of a model, as wide as its head."""

    token_bytes: tuple[bytes, ...]
    """Bytes per id, one entry per row of the head; empty for control tokens and for unused rows."""
    control_ids: frozenset[int]
    """Ids that steer the model (`<|im_end|>`, `<tool_call>`): legal only where something names them."""
    unused_ids: frozenset[int]
    """Rows of the head without a token (padding): never legal, never sampled."""
    eos_ids: tuple[int, ...]
    """Ids that end a text: the union of what config, generation config and tokenizer say."""
    tokenizer_json: str | None
    """The tokenizer as Hugging Face JSON text without unused entries; None for a bare byte vocabulary in tests."""
    fingerprint: str
    """Changes when any of the above does; part of cache keys."""

    @property
    def num_logits(self) -> int:
        """Rows of the head: the width of logits and masks."""
        return len(self.token_bytes)


def read_vocabulary(
    tokenizer_json: str, *, num_logits: int, eos_ids: Sequence[int] = (), unused_ids: Collection[int] = ()
) -> Vocabulary:
    """Read the bytes of every token from a tokenizer in Hugging Face's JSON form.

    Every added token is a control token, special or not (`<tool_call>` is one). Tokens beyond the head cannot be
    generated and are left out. No entry is judged by its name.

    Args:
        tokenizer_json: text of a `tokenizer.json` with a BPE model, byte-level or with byte fallback.
        num_logits: rows of the model's head, at least 1; rows without a token are unused.
        eos_ids: ids that end a text; those beyond the head are left out.
        unused_ids: ids that the checkpoint declares unused although the tokenizer has an entry for them.

    Raises:
        CheckpointError: the text is not a tokenizer.
        UnsupportedModelError: the tokenizer is neither byte-level nor byte-fallback BPE.
    """
    tokenizer = _parse(tokenizer_json)
    if unused_ids:
        _drop_entries(tokenizer, frozenset(unused_ids))
        tokenizer_json = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    control_ids = frozenset(entry["id"] for entry in tokenizer["added_tokens"] if entry["id"] < num_logits)
    token_bytes: list[bytes] = [b""] * num_logits
    known_ids = set(control_ids)
    to_bytes = _byte_reader(tokenizer)
    for token, token_id in tokenizer["model"]["vocab"].items():
        if token_id < num_logits and token_id not in control_ids:
            token_bytes[token_id] = to_bytes(token)
            known_ids.add(token_id)
    unused = frozenset(range(num_logits)) - known_ids
    eos = tuple(dict.fromkeys(token_id for token_id in eos_ids if token_id < num_logits))
    return Vocabulary(
        token_bytes=tuple(token_bytes),
        control_ids=control_ids,
        unused_ids=unused,
        eos_ids=eos,
        tokenizer_json=tokenizer_json,
        # The bytes and the kinds of ids follow from the text and the width.
        fingerprint=hashlib.sha256(f"{num_logits} {eos} {tokenizer_json}".encode()).hexdigest(),
    )


def read_eos_ids(folder: Path, *, tokenizer_eos_id: int | None, control_tokens: Mapping[str, int]) -> tuple[int, ...]:
    """Unite the end-of-sequence ids of `config.json`, `generation_config.json`, the tokenizer and the usual names.

    One source never replaces another: each of them is known to lack an id that the model emits.

    Args:
        folder: folder of the checkpoint; either file may be missing.
        tokenizer_eos_id: what the tokenizer itself says.
        control_tokens: id per control token, for `<|endoftext|>` and `<|im_end|>` by name.

    Raises:
        CheckpointError: a file is not JSON.
    """
    found: list[int | None] = []
    for name in ("config.json", "generation_config.json"):
        config = read_json_object(folder / name)
        for section in (config, config.get("text_config") or {}):
            value = section.get("eos_token_id")
            found += value if isinstance(value, list) else [value]
    found += [tokenizer_eos_id, *(control_tokens.get(name) for name in _END_TOKENS)]
    return tuple(dict.fromkeys(token_id for token_id in found if token_id is not None))


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint; empty when the file is missing.

    Raises:
        CheckpointError: the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is not a JSON object: {error}. Fetch the model again.") from error


def _parse(tokenizer_json: str) -> dict[str, Any]:
    try:
        tokenizer = dict(json.loads(tokenizer_json))
        kind = tokenizer["model"]["type"]
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"The tokenizer is damaged: {error!r}. Fetch the model again.") from error
    if kind != "BPE":
        raise UnsupportedModelError(f"The tokenizer is of type {kind}; only BPE tokenizers are served.")
    tokenizer["added_tokens"] = tokenizer.get("added_tokens") or []
    return tokenizer


def _drop_entries(tokenizer: dict[str, Any], unused_ids: frozenset[int]) -> None:
    tokenizer["added_tokens"] = [entry for entry in tokenizer["added_tokens"] if entry["id"] not in unused_ids]
    vocab = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {token: token_id for token, token_id in vocab.items() if token_id not in unused_ids}


class _ByteLevelReader:
    """Bytes of a byte-level BPE token, in which one printable character stands for each byte.

    Source: the byte alphabet of GPT-2 (Radford et al. 2019).
    """

    def __init__(self) -> None:
        printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
        shifted = [byte for byte in range(256) if byte not in printable]
        self._byte_of = {chr(byte): byte for byte in printable}
        self._byte_of |= {chr(256 + index): byte for index, byte in enumerate(shifted)}

    def __call__(self, token: str) -> bytes:
        try:
            return bytes(map(self._byte_of.__getitem__, token))
        except KeyError:  # outside the alphabet, so the token stands for itself
            return token.encode()


class _ByteFallbackReader:
    """Bytes of a sentencepiece-style token: `▁` is a space, `<0xE2>` one byte, all else itself."""

    _BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")

    def __call__(self, token: str) -> bytes:
        byte = self._BYTE.fullmatch(token)
        return bytes.fromhex(byte[1]) if byte else token.replace("▁", " ").encode()


def _byte_reader(tokenizer: dict[str, Any]) -> _ByteLevelReader | _ByteFallbackReader:
    decoder = tokenizer.get("decoder") or {}
    kinds = {part["type"] for part in decoder.get("decoders", [decoder]) if part}
    if "ByteLevel" in kinds:
        return _ByteLevelReader()
    if kinds & {"ByteFallback", "Metaspace"}:
        return _ByteFallbackReader()
    raise UnsupportedModelError(
        f"The tokenizer decodes with {sorted(kinds) or 'nothing'}; byte-level and byte-fallback BPE are served."
    )
