"""From constraint to compiled grammar: each is compiled once per vocabulary, whatever the number of requests."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import OrderedDict
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from sureact.constraints.constraint import Constraint
from sureact.constraints.llguidance_matcher import new_matcher
from sureact.constraints.llguidance_tokenizer import build_tokenizer, control_token_id
from sureact.errors import ConstraintCompileError

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

_NAMES_OTHERS = re.compile(r"<\[[^\]]*[*^]")
"""How it names tokens by leaving others out: `<[^3]>`, `<[*]>`."""


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
        return compile_once(self.cache_key, vocabulary, lambda: _compile_grammar(self, vocabulary))


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


_COMPILED: _OnceCache[CompiledConstraint] = _OnceCache(max_size=256)
_TOKENIZERS: _OnceCache[LLTokenizer] = _OnceCache(max_size=4)


def compile_once(cache_key: str, vocabulary: Vocabulary, make: Callable[[], CompiledConstraint]) -> CompiledConstraint:
    """Return what an earlier call made of a constraint for this vocabulary, else what `make` makes of it now."""
    return _COMPILED.get_or_make((cache_key, vocabulary.fingerprint), make)


def tokenizer_of(vocabulary: Vocabulary) -> LLTokenizer:
    """Return llguidance's view of a vocabulary, built once.

    Raises:
        ConfigError: the vocabulary has no end-of-sequence id.
    """
    return _TOKENIZERS.get_or_make(vocabulary.fingerprint, lambda: build_tokenizer(vocabulary))


def try_compile(
    grammar_text: str,
    vocabulary: Vocabulary,
    named_control_ids: frozenset[int] = frozenset(),
    *,
    spells_json: bool = False,
) -> CompiledGrammar | str:
    """Compile a grammar, or say why llguidance refuses it. Nothing is cached.

    Args:
        grammar_text: Lark, or the JSON text that `LLMatcher.grammar_from_json_schema` returns.
        vocabulary: to compile for.
        named_control_ids: the control tokens that the grammar names.
        spells_json: whether backslashes in its texts begin escapes of JSON strings.

    Returns:
        The compiled grammar, or the text of the error.
    """
    from sureact.constraints.llguidance_state import CompiledGrammar

    matcher = new_matcher(tokenizer_of(vocabulary), grammar_text)
    if matcher.is_error():
        return matcher.get_error()
    names_others = bool(named_control_ids & vocabulary.unused_ids) or _NAMES_OTHERS.search(grammar_text) is not None
    return CompiledGrammar.of(
        matcher, vocabulary, named_control_ids, needs_legal_words=names_others, spells_json=spells_json
    )


def _compile_grammar(constraint: GrammarConstraint, vocabulary: Vocabulary) -> CompiledGrammar:
    tokenizer = tokenizer_of(vocabulary)
    compiled = try_compile(constraint.grammar(tokenizer), vocabulary, constraint.named_control_ids(tokenizer))
    if isinstance(compiled, str):
        raise constraint.compile_error(compiled)
    return compiled
