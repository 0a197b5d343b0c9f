"""Bitmasks over a vocabulary: int32 words, bit `id % 32` of word `id // 32` says whether token `id` may come next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.tokens.vocabulary import Vocabulary

_WORD_BITS = 32


def num_bitmask_words(num_logits: int) -> int:
    """Return the int32 words that hold one bit per logit."""
    return -(-num_logits // _WORD_BITS)


def allocate_token_bitmask(num_rows: int, num_logits: int) -> torch.Tensor:
    """Return a bitmask that allows nothing.

    Args:
        num_rows: rows, one per sequence or position.
        num_logits: rows of the model's head.

    Returns:
        `[num_rows, ceil(num_logits / 32)]`, int32, on the host, pinned where there is a CUDA device.
    """
    shape = (num_rows, num_bitmask_words(num_logits))
    return torch.zeros(shape, dtype=torch.int32, pin_memory=torch.cuda.is_available())


def write_token_ids(bitmask: torch.Tensor, row: int, token_ids: Iterable[int]) -> None:
    """Overwrite `bitmask[row]` with exactly `token_ids`."""
    bits = torch.zeros(bitmask.shape[1] * _WORD_BITS, dtype=torch.bool)
    bits[torch.tensor(list(token_ids), dtype=torch.long)] = True
    bitmask[row] = _packed(bits)


def read_token_ids(bitmask: torch.Tensor, row: int) -> list[int]:
    """Return the ids whose bit is 1 in `bitmask[row]`, ascending."""
    shifts = torch.arange(_WORD_BITS, dtype=torch.int32)
    bits = (bitmask[row].unsqueeze(1) >> shifts) & 1
    return bits.flatten().nonzero().flatten().tolist()


def is_token_allowed(bitmask: torch.Tensor, row: int, token_id: int) -> bool:
    """Whether the bit of `token_id` is 1 in `bitmask[row]`."""
    word = int(bitmask[row, token_id // _WORD_BITS])
    return bool(word >> (token_id % _WORD_BITS) & 1)


def clear_token(bitmask: torch.Tensor, row: int, token_id: int) -> None:
    """Set the bit of `token_id` to 0 in `bitmask[row]`: how a veto is written into the mask."""
    kept = ~(1 << (token_id % _WORD_BITS)) & 0xFFFFFFFF
    signed = kept - (1 << _WORD_BITS) if kept >> (_WORD_BITS - 1) else kept
    bitmask[row, token_id // _WORD_BITS] &= signed


def legal_bitmask(vocabulary: Vocabulary, named_control_ids: frozenset[int] = frozenset()) -> torch.Tensor:
    """Return the ids that a constrained text may ever contain: text, end-of-sequence, and the control ids named.

    Returns:
        `[1, ceil(num_logits / 32)]`, int32, on the host.
    """
    allowed = frozenset(vocabulary.eos_ids) | named_control_ids
    illegal = (vocabulary.control_ids - allowed) | vocabulary.unused_ids
    bits = torch.zeros(num_bitmask_words(vocabulary.num_logits) * _WORD_BITS, dtype=torch.bool)
    bits[: vocabulary.num_logits] = True
    bits[torch.tensor(sorted(illegal), dtype=torch.long)] = False
    return _packed(bits).unsqueeze(0)


def _packed(bits: torch.Tensor) -> torch.Tensor:
    """Pack bools `[num_words * 32]` into int32 `[num_words]`."""
    # Into bytes first: those have no sign to overflow. Their order in a word is the host's, little-endian.
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)
    return (bits.view(-1, 8) * weights).sum(dim=1, dtype=torch.uint8).view(torch.int32)
