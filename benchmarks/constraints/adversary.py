"""A model that works against its constraint: it needs no weights, as it ranks tokens by what they do to the text."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch

from sureact.constraints.token_bitmask import allocate_token_bitmask
from sureact.errors import ConstraintError, InternalError
from sureact.execution.model_runner import ModelRunner
from sureact.execution.pass_output import PassOutput
from sureact.tokens.vocabulary import Vocabulary
from sureact_kernels.masked_argmax import allowed_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.kv_cache.cached_sequence import CachedSequence
    from sureact.scheduling.batch import Batch
    from sureact.scheduling.request import Request

Strategy = Literal["hate", "close", "repeat", "random", "exotic"]
"""What a model prefers.

hate: tokens that grammar or guard refuse, then those that keep the value open.
close: the end of the text, then whatever closes a string, an array or an object.
repeat: the token that followed the last time that the text stood here: the same keys and values again and again.
random: other tokens at each step.
exotic: escapes, surrogates, bytes of characters outside ASCII, digits, exponents, brackets.
"""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_NUM_PROBED = 12
"""Allowed tokens that `hate` asks the guard about at each step."""

_END_ID = 256
_MARKS = ('"', '": ', '", ', "{", "}", "[", "]", ", ", ":")
_ESCAPES = (
    r"\"",
    r"\\",
    r"\/",
    r"\n",
    r"\u",
    r"\u0",
    r"\u00",
    r"\u0022",
    r"\u0061",
    r"\u2028",
    r"\ud83d",
    r"\ude00",
    r"\uD800",
)
_NUMBERS = (
    "-0",
    "-1",
    "0.",
    ".0",
    ".5",
    "1e",
    "e+",
    "e-9",
    "E9",
    "1e99",
    "1e308",
    "00",
    "0000",
    "999",
    "2024",
    "127.0",
)
_WORDS = (
    "null",
    "true",
    "false",
    "abc",
    "name",
    "type",
    "value",
    "items",
    "date",
    "the ",
    " of",
    "ing",
    "https://",
    ".com",
)
_SPECIAL = ("-01-01", "T00", ":00", "+00:00", "::1", "xxxxxxxx", "aa", "aaaa", "é", "ß", "中", "😀", "\u2028")
_TORN = ("😀".encode()[:2], "中".encode()[1:], b'\xa9"')
"""Tokens that begin or end within a character, as those of byte-level tokenizers do."""


def adversarial_vocabulary() -> Vocabulary:
    """Return the 256 bytes, an end, and some hundred longer tokens such as a trained tokenizer has."""
    pairs = [first + second for first in _MARKS for second in _MARKS]
    syllables = [first + second for first in "abcdeilnorst" for second in "aeinorst_"]
    pieces = (*_MARKS, *pairs, *_ESCAPES, *_NUMBERS, *_WORDS, *_SPECIAL, *syllables, *map(str, range(10, 100)))
    longer = [*dict.fromkeys(piece.encode() for piece in pieces if len(piece.encode()) > 1), *_TORN]
    tokens = (*(bytes([value]) for value in range(256)), b"", *longer)
    return Vocabulary(
        token_bytes=tokens,
        control_ids=frozenset({_END_ID}),
        unused_ids=frozenset(),
        eos_ids=(_END_ID,),
        tokenizer_json=None,
        fingerprint=hashlib.sha256(repr(tokens).encode()).hexdigest(),
    )


class Adversary(ModelRunner):
    """Ranks the tokens of each request by its strategy, and counts the steps that each request takes."""

    def __init__(self, vocabulary: Vocabulary, seed: int, *, max_steps: int) -> None:
        self._vocabulary = vocabulary
        self._max_steps = max_steps
        self._random = np.random.default_rng(seed)
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
        self._priorities = {name: _priorities(vocabulary, name) for name in STRATEGIES}
        self._strategies: WeakKeyDictionary[CachedSequence, Strategy] = WeakKeyDictionary()
        self._num_steps: WeakKeyDictionary[CachedSequence, int] = WeakKeyDictionary()

    @property
    def weight_bytes_per_token(self) -> int:
        """None."""
        return 0

    def play(self, request: Request, strategy: Strategy) -> None:
        """Choose the strategy against a request before it is submitted."""
        self._strategies[request.sequence] = strategy
        self._num_steps[request.sequence] = 0

    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Return `[rows, num_logits]`; requests of the arena have no drafts."""
        fill_masks()
        rows = [self._logits(entry.request) for entry in batch.entries if entry.is_last_chunk]
        return PassOutput(torch.from_numpy(np.stack(rows)) if rows else torch.empty((0, self._vocabulary.num_logits)))

    def _logits(self, request: Request) -> np.ndarray:
        self._num_steps[request.sequence] += 1
        if self._num_steps[request.sequence] > self._max_steps:
            raise InternalError(f"The request did not end within {self._max_steps} steps.")
        strategy = self._strategies[request.sequence]
        noise = self._random.standard_normal(self._vocabulary.num_logits, dtype=np.float32)
        logits = self._priorities[strategy] + noise
        if strategy == "hate":
            logits[self._refused(request)] += 100
        elif strategy == "repeat":
            logits[self._followers(request.generated_ids)] += 100
        return logits

    def _refused(self, request: Request) -> list[int]:
        """Return the tokens that the mask refuses, and some that it allows and the guard refuses."""
        assert request.constraint is not None, "only constrained requests are played against"
        try:
            request.constraint.fill_bitmask(self._bitmask, 0)
        except ConstraintError:  # the sampler meets it next, and answers for this request alone
            return []
        allowed = allowed_ids(self._bitmask[0]).tolist()
        probed = self._random.choice(allowed, min(_NUM_PROBED, len(allowed)), replace=False).tolist()
        vetoed = [token_id for token_id in probed if not request.constraint.check_token(token_id)]
        masked = set(range(self._vocabulary.num_logits)).difference(allowed)
        return [*masked, *vetoed]

    @staticmethod
    def _followers(token_ids: list[int]) -> list[int]:
        """Return the tokens that came after the longest suffix of the text that came before."""
        for length in (4, 2, 1):
            suffix = token_ids[-length:]
            for start in range(len(token_ids) - length - 1, -1, -1):
                if suffix and token_ids[start : start + length] == suffix:
                    return [token_ids[start + length]]
        return []


def _priorities(vocabulary: Vocabulary, strategy: Strategy) -> np.ndarray:
    scores = [_priority(token, strategy) for token in vocabulary.token_bytes]
    for end_id in vocabulary.eos_ids:
        scores[end_id] = 60.0 if strategy == "close" else -60.0
    return np.array(scores, dtype=np.float32)


def _priority(token: bytes, strategy: Strategy) -> float:
    closes = _share(token, b'}]"')
    if strategy == "close":
        return 40 * closes - 20 * _share(token, b"{[,:") - len(token)
    if strategy == "exotic":
        return 20 * max(_share(token, b"\\u"), _share(token, b"0123456789eE.+-"), _share(token, b"[{"), _high(token))
    if strategy == "random":
        return 0.0
    return -40 * closes


def _share(token: bytes, bytes_of_a_kind: bytes) -> float:
    return sum(byte in bytes_of_a_kind for byte in token) / max(len(token), 1)


def _high(token: bytes) -> float:
    return _share(token, bytes(range(128, 256)))
