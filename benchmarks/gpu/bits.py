"""Compares results bit for bit and says where they first differ."""

from __future__ import annotations

from typing import NamedTuple

import torch

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Difference(NamedTuple):
    """Of two results."""

    num_elements: int
    """That differ; 0 where all bits are equal."""
    first: str
    """The first of them in words; empty where all bits are equal."""


EQUAL = Difference(0, "")


def difference(found: torch.Tensor, expected: torch.Tensor) -> Difference:
    """Compare bits, so that NaN equals itself and 0.0 is not -0.0."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return Difference(
            expected.numel(), f"{list(found.shape)} {found.dtype} instead of {list(expected.shape)} {expected.dtype}"
        )
    words = _WORDS[found.element_size()]
    found, expected = found.contiguous().flatten(), expected.contiguous().flatten()
    differs = (found.view(words) != expected.view(words)).nonzero().flatten()
    if not len(differs):
        return EQUAL
    at = int(differs[0])
    return Difference(
        len(differs),
        f"{len(differs)} of {len(found)} elements differ, first {at}: {found[at].item()!r} instead of "
        f"{expected[at].item()!r}",
    )
