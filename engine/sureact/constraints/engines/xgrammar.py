"""JSON schemas on xgrammar (extra `xgrammar`), with what it would drop refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.constraints.engines.refusal import REMEDY, refuse_spelling, refuse_unenforced
from sureact.constraints.engines.xgrammar_keywords import xgrammar_fault
from sureact.constraints.token_bitmask import (
    allocate_token_bitmask,
    is_token_allowed,
    legal_bitmask,
    read_token_ids,
    write_token_ids,
)
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintStateError

if TYPE_CHECKING:
    import torch

    from sureact.constraints.prepared_schema import JsonSpelling
    from sureact.constraints.schema.keywords import Schema
    from sureact.tokens.vocabulary import Vocabulary


_CACHE_BYTES = 1 << 29
"""Of compiled grammars, and of the parts that several share."""


def compile_with_xgrammar(schema: Schema, vocabulary: Vocabulary, spelling: JsonSpelling) -> CompiledConstraint:
    """Compile a schema of draft 2020-12 on xgrammar.

    Patterns must match from end to end there, and strings with a length cannot hold escapes: such texts cannot be
    written. Forced tokens are not found, as xgrammar's are not canonical.

    Raises:
        ConfigError: xgrammar is not installed, escapes are asked for, or the vocabulary has no end.
        UnsupportedSchemaError: it would not enforce a keyword.
        ConstraintCompileError: it refuses the schema.
    """
    refuse_spelling("xgrammar", spelling)
    refuse_unenforced("xgrammar", schema, xgrammar_fault)
    compiler = grammar_compiler(vocabulary)
    separators = None if spelling.free_whitespace else (spelling.item_separator, spelling.key_separator)
    try:
        grammar = compiler.compile_json_schema(
            json.dumps(schema),
            any_whitespace=spelling.free_whitespace,
            separators=separators,
            strict_mode=False,
            any_order=spelling.any_key_order,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().removesuffix(".")
        raise ConstraintCompileError(f"xgrammar cannot compile the JSON schema: {reason}. {REMEDY}") from error
    return XgrammarConstraint(grammar, vocabulary, legal_bitmask(vocabulary))


def grammar_compiler(vocabulary: Vocabulary) -> Any:
    """Return xgrammar's compiler for a vocabulary, with caches of its own.

    Raises:
        ConfigError: xgrammar is not installed, or the vocabulary has no end.
    """
    if not vocabulary.eos_ids:
        raise ConfigError("The vocabulary has no end-of-sequence id, so a constrained text could never end.")
    return _compiler(_VocabularyKey(vocabulary))


class _VocabularyKey:
    """A vocabulary as a key of a cache."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _VocabularyKey) and other.vocabulary.fingerprint == self.vocabulary.fingerprint

    def __hash__(self) -> int:
        return hash(self.vocabulary.fingerprint)


@lru_cache(maxsize=4)
def _compiler(key: _VocabularyKey) -> Any:
    try:
        from xgrammar import (  # pyright: ignore[reportMissingImports]  an extra
            GrammarCompiler,
            TokenizerInfo,
            VocabType,
        )
    except ImportError as error:
        raise ConfigError("xgrammar is not installed; `pip install 'sureact[xgrammar]'` brings it.") from error
    vocabulary = key.vocabulary
    # Control tokens and unused rows have no bytes: that is what makes a token special to xgrammar. As wide as the head,
    # or the mask would not fit the logits.
    info = TokenizerInfo(
        list(vocabulary.token_bytes),
        VocabType.RAW,
        vocab_size=vocabulary.num_logits,
        stop_token_ids=list(vocabulary.eos_ids),
    )
    return GrammarCompiler(info, cache_limit_bytes=_CACHE_BYTES)


@dataclass(frozen=True, slots=True, eq=False)
class XgrammarConstraint(CompiledConstraint):
    """A grammar of xgrammar's bound to a vocabulary."""

    grammar: Any
    vocabulary: Vocabulary
    legal: torch.Tensor
    """`[1, ceil(num_logits / 32)]`, int32: the ids that may ever appear."""

    def new_state(self) -> ConstraintState:
        """Return a position at the start of the text."""
        from xgrammar import GrammarMatcher  # pyright: ignore[reportMissingImports]  an extra

        return XgrammarState(self, GrammarMatcher(self.grammar))


class XgrammarState(ConstraintState):
    """A position inside a grammar of xgrammar's.

    End-of-sequence tokens are counted here and never shown to the matcher, which computes no mask after one.
    """

    def __init__(self, compiled: XgrammarConstraint, matcher: Any, num_accepted: int = 0, num_ends: int = 0) -> None:
        """Wrap `matcher`, which has accepted `num_accepted - num_ends` tokens."""
        self._compiled = compiled
        self._matcher = matcher
        self._num_accepted = num_accepted
        self._num_ends = num_ends

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here; where the text is forced, with every way to cut it."""
        if self._num_ends:
            write_token_ids(bitmask, row, self._compiled.vocabulary.eos_ids)
            return
        if bitmask.shape[1:] != self._compiled.legal.shape[1:]:
            raise ConstraintStateError(
                f"The bitmask is {tuple(bitmask.shape)}; its rows must have {self._compiled.legal.shape[1]} words."
            )
        self._matcher.fill_next_token_bitmask(bitmask, row)
        bitmask[row] &= self._compiled.legal[0]
        if not bitmask[row].any():
            raise ConstraintStateError("No token of this vocabulary can continue the constrained text.")

    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next."""
        if not self._is_legal(token_id):
            return False
        if token_id in self._compiled.vocabulary.eos_ids:
            return self.is_accepting
        if self._num_ends or not self._matcher.accept_token(token_id):
            return False
        self._matcher.rollback(1)
        return True

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        is_end = token_id in self._compiled.vocabulary.eos_ids
        if is_end and self.is_accepting:
            self._num_ends += 1
        elif is_end or self._num_ends or not self._is_legal(token_id) or not self._matcher.accept_token(token_id):
            raise ConstraintStateError(f"Token {token_id} is not legal here.")
        self._num_accepted += 1

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        if not 0 <= num_tokens <= self._num_accepted:
            raise ConstraintStateError(f"Cannot undo {num_tokens} tokens: {self._num_accepted} were accepted.")
        num_ends = min(num_tokens, self._num_ends)
        self._num_ends -= num_ends
        self._num_accepted -= num_tokens
        if num_tokens > num_ends:
            self._matcher.rollback(num_tokens - num_ends)

    def forced_tokens(self) -> list[int]:
        """Return none: those of xgrammar need not be the canonical ones."""
        return []

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._num_ends > 0 or self._matcher.is_completed()

    @property
    def is_terminated(self) -> bool:
        """Whether the text must end here, or did."""
        if self._num_ends or not self._matcher.is_completed():
            return self._num_ends > 0
        bitmask = allocate_token_bitmask(1, self._compiled.vocabulary.num_logits)
        self.fill_bitmask(bitmask, 0)
        return set(read_token_ids(bitmask, 0)) <= set(self._compiled.vocabulary.eos_ids)

    def fork(self) -> XgrammarState:
        """Return an independent copy."""
        return XgrammarState(self._compiled, self._matcher.fork(), self._num_accepted, self._num_ends)

    def _is_legal(self, token_id: int) -> bool:
        in_range = 0 <= token_id < self._compiled.vocabulary.num_logits
        return in_range and is_token_allowed(self._compiled.legal, 0, token_id)
