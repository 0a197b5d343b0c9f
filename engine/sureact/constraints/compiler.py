"""From constraint to compiled grammar: each is compiled once per vocabulary, whatever the number of requests."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import OrderedDict
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from sureact.constraints.constraint import Constraint
from sureact.errors import ConfigError, ConstraintCompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from llguidance import LLTokenizer

    from sureact.constraints.constraint import CompiledConstraint
    from sureact.constraints.llguidance_state import CompiledGrammar
    from sureact.errors import ConstraintError
    from sureact.tokens.vocabulary import Vocabulary

_T = TypeVar("_T")

_NAMED_TOKEN = re.compile(r"<[^<>\s]+>")
"""How a Lark grammar names a token: `<tool_call>`, or by id `<[151657]>`, `<[3-7,9]>`."""


class GrammarConstraint(Constraint):
    """A constraint that is written as one llguidance grammar."""

    @abstractmethod
    def grammar(self, tokenizer: LLTokenizer) -> str:
        """Return the grammar text.

        Args:
            tokenizer: of the vocabulary to compile for; needed only to look up control tokens by name.
        """

    def named_control_ids(self, tokenizer: LLTokenizer) -> frozenset[int]:
        """Return the control tokens that the grammar names: all others stay illegal."""
        return frozenset()

    def compile_error(self, reason: str) -> ConstraintError:
        """Return the error to raise when llguidance refuses the grammar for `reason`."""
        return ConstraintCompileError(f"The constraint cannot be compiled: {reason}")

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary, or return what an earlier call bound."""
        key = (self.cache_key, vocabulary.fingerprint)
        return _COMPILED.get_or_make(key, lambda: _compile_grammar(self, vocabulary))


def token_ids_named(lark_text: str, tokenizer: LLTokenizer) -> frozenset[int]:
    """Return the ids of the tokens that a Lark grammar names.

    Names inside string literals count too; they allow nothing that the grammar does not ask for.
    """
    token_ids: set[int] = set()
    for name in set(_NAMED_TOKEN.findall(lark_text)):
        if name.startswith("<[") and name.endswith("]>"):
            token_ids.update(_listed_ids(name[2:-2]))
        elif (token_id := control_token_id(tokenizer, name)) is not None:
            token_ids.add(token_id)
    return frozenset(token_ids)


def _listed_ids(text: str) -> Iterator[int]:
    """Read ids and ranges such as `3-7,9`; what is neither is left to llguidance to refuse."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), int(last or first) + 1)


def control_token_id(tokenizer: LLTokenizer, name: str) -> int | None:
    """Return the id of the single control token written `name`, or None when the tokenizer has no such token."""
    token_ids = tokenizer.tokenize_str(name, parse_special=True)
    is_single = len(token_ids) == 1 and tokenizer.is_special_token(token_ids[0])
    return token_ids[0] if is_single else None


class _OnceCache(Generic[_T]):
    """Least-recently-used cache that makes each value once, however many threads ask at the same time."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._lock = Lock()
        self._values: OrderedDict[Hashable, Future[_T]] = OrderedDict()

    def get_or_make(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of `key`; what `make` raises is raised to all who wait, and not kept."""
        with self._lock:
            future = self._values.get(key)
            is_mine = future is None
            if future is None:
                future = self._values[key] = Future()
                if len(self._values) > self._max_size:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
        if is_mine:
            self._fill(key, future, make)
        return future.result()

    def _fill(self, key: Hashable, future: Future[_T], make: Callable[[], _T]) -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # an interrupt too must wake those who wait
            with self._lock:
                self._values.pop(key, None)
            future.set_exception(error)


_COMPILED: _OnceCache[CompiledGrammar] = _OnceCache(max_size=256)
_TOKENIZERS: _OnceCache[LLTokenizer] = _OnceCache(max_size=4)


def _compile_grammar(constraint: GrammarConstraint, vocabulary: Vocabulary) -> CompiledGrammar:
    from llguidance import LLMatcher

    from sureact.constraints.llguidance_state import CompiledGrammar
    from sureact.constraints.token_bitmask import legal_bitmask

    tokenizer = _TOKENIZERS.get_or_make(vocabulary.fingerprint, lambda: _build_tokenizer(vocabulary))
    # The constructor never raises: what it refuses is found in its error text.
    matcher = LLMatcher(tokenizer, constraint.grammar(tokenizer), log_level=0)
    if matcher.is_error():
        raise constraint.compile_error(matcher.get_error())
    return CompiledGrammar(matcher, vocabulary, legal_bitmask(vocabulary, constraint.named_control_ids(tokenizer)))


def _build_tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    if not vocabulary.eos_ids:
        raise ConfigError("The vocabulary has no end-of-sequence id, so a constrained text could never end.")
    eos_ids = list(vocabulary.eos_ids)
    if vocabulary.tokenizer_json is not None:
        return LLTokenizer(vocabulary.tokenizer_json, n_vocab=vocabulary.num_logits, eos_token=eos_ids)
    return LLTokenizer(TokenizerWrapper(_ByteTokenizer(vocabulary)), eos_token=eos_ids)


class _ByteTokenizer:
    """A vocabulary without a tokenizer, in the shape that llguidance asks of one: longest token first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        not_text = vocabulary.control_ids | set(vocabulary.eos_ids)
        self.eos_token_id = vocabulary.eos_ids[0]
        self.bos_token_id = None
        self.special_token_ids = sorted(not_text)
        self.tokens = [
            f"<|{token_id}|>".encode() if token_id in not_text else token
            for token_id, token in enumerate(vocabulary.token_bytes)
        ]
        texts = ((token, token_id) for token_id, token in enumerate(vocabulary.token_bytes) if token)
        self._ids = {token: token_id for token, token_id in texts if token_id not in not_text}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int]:
        """Tokenize; bytes that no token covers end the result."""
        token_ids: list[int] = []
        start = 0
        while start < len(text):
            ends = range(min(len(text), start + self._longest), start, -1)
            end = next((end for end in ends if text[start:end] in self._ids), None)
            if end is None:
                break
            token_ids.append(self._ids[text[start:end]])
            start = end
        return token_ids
