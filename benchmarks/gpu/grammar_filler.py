"""Masks of a grammar, filled by llguidance over a made-up vocabulary; only imported where llguidance is."""

from __future__ import annotations

import json
import random

import torch

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.constraints.json_schema import json_schema
from sureact.constraints.token_bitmask import allocate_token_bitmask
from sureact.tokens.vocabulary import Vocabulary

_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["find_order", "find_customer", "shipping_options"]},
        "text": {"type": "string"},
        "numbers": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name", "text", "numbers"],
    "additionalProperties": False,
}
_LETTERS = 'abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,.:;"{}[]0123456789_-'


class GrammarFiller:
    """A tool call in every row, begun anew when it ends.

    Args:
        batch: rows.
        vocab_size: ids.
    """

    def __init__(self, batch: int, vocab_size: int) -> None:
        vocabulary = made_up_vocabulary(vocab_size)
        self._compiled: CompiledConstraint = json_schema(json.dumps(_SCHEMA)).compile(vocabulary)
        self._states: list[ConstraintState] = [self._compiled.new_state() for _ in range(batch)]
        self._masks = allocate_token_bitmask(batch, vocab_size)

    def __call__(self) -> torch.Tensor:
        """Return the masks of the next step."""
        for row, state in enumerate(self._states):
            state.fill_bitmask(self._masks, row)
        return self._masks

    def accept(self, token_ids: list[int]) -> None:
        """Take the token that each row picked."""
        for row, token_id in enumerate(token_ids):
            state = self._states[row]
            # The mask may allow more than the last word on a token does, and the picks of random weights are wild.
            if state.check_token(token_id):
                state.accept_token(token_id)
            if state.is_terminated:
                self._states[row] = self._compiled.new_state()


def made_up_vocabulary(vocab_size: int) -> Vocabulary:
    """Return the 256 bytes, random texts, and one id that ends a text."""
    draw = random.Random("vocabulary")
    texts = {bytes([byte]): None for byte in range(256)}
    while len(texts) < vocab_size - 1:
        texts["".join(draw.choices(_LETTERS, k=draw.randrange(2, 7))).encode()] = None
    return Vocabulary(
        token_bytes=(*texts, b""),
        control_ids=frozenset({vocab_size - 1}),
        unused_ids=frozenset(),
        eos_ids=(vocab_size - 1,),
        tokenizer_json=None,
        fingerprint=f"made up, {vocab_size} ids",
    )
