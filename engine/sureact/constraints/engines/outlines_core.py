"""JSON schemas on outlines_core, which makes one regex of a schema, with what it would drop refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.constraints.engines.outlines_core_keywords import outlines_core_fault, refuse_open_end, refuse_references
from sureact.constraints.engines.refusal import REMEDY, refuse_spelling, refuse_unenforced
from sureact.constraints.schema.keywords import map_subschemas
from sureact.constraints.token_bitmask import clear_token, is_token_allowed, legal_bitmask, write_token_ids
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from sureact.constraints.prepared_schema import JsonSpelling
    from sureact.constraints.schema.keywords import Schema
    from sureact.tokens.vocabulary import Vocabulary

_ANY_WHITESPACE = r"[ \t\r\n]*"


def compile_with_outlines_core(schema: Schema, vocabulary: Vocabulary, spelling: JsonSpelling) -> CompiledConstraint:
    r"""Compile a schema of draft 2020-12 on outlines_core. Takes seconds and gigabytes for long strings.

    Numbers have no exponent, strings no `\u` escape, and undeclared properties are not written: such texts are valid
    and cannot be written.

    Raises:
        ConfigError: the spelling is neither compact nor with free whitespace, keys may come in any order,
            escapes are asked for, or the vocabulary has no end.
        UnsupportedSchemaError: outlines_core would not enforce a keyword.
        ConstraintCompileError: it refuses the schema.
    """
    from outlines_core.json_schema import (  # pyright: ignore[reportMissingImports]  a module without a file
        build_regex_from_schema,
    )

    refuse_spelling("outlines_core", spelling)
    whitespace = _whitespace_pattern(spelling)
    if isinstance(schema, bool):
        raise ConstraintCompileError(f"outlines_core takes no boolean schema. {REMEDY}")
    refuse_unenforced("outlines_core", schema, outlines_core_fault)
    refuse_references(schema)
    refuse_open_end(schema)
    try:
        regex = build_regex_from_schema(json.dumps(_longest_first(schema)), whitespace)
    except (TypeError, ValueError) as error:
        raise _refused(error) from error
    return OutlinesCoreConstraint(compile_index(regex, vocabulary), vocabulary, legal_bitmask(vocabulary))


def compile_index(regex: str, vocabulary: Vocabulary) -> Any:
    """Return the automaton of a regex over the tokens of a vocabulary.

    Raises:
        ConfigError: the vocabulary has no end.
        ConstraintCompileError: outlines_core refuses the regex.
    """
    from outlines_core import Index

    if not vocabulary.eos_ids:
        raise ConfigError("The vocabulary has no end-of-sequence id, so a constrained text could never end.")
    try:
        return Index(regex, _core_vocabulary(vocabulary.token_bytes, vocabulary.eos_ids))
    except ValueError as error:
        raise _refused(error) from error


def _refused(error: Exception) -> ConstraintCompileError:
    reason = str(error).partition("\n")[0].strip().removesuffix(".")
    return ConstraintCompileError(f"outlines_core cannot compile the JSON schema: {reason}. {REMEDY}")


@lru_cache(maxsize=4)
def _core_vocabulary(token_bytes: tuple[bytes, ...], eos_ids: tuple[int, ...]) -> Any:
    from outlines_core import Vocabulary

    ids: dict[bytes, list[int]] = {}
    for token_id, token in enumerate(token_bytes):
        if token and token_id not in eos_ids:
            ids.setdefault(token, []).append(token_id)
    # By bytes: as texts, all tokens that end inside a character would be the same one.
    return Vocabulary(eos_ids[0], cast("dict[str | bytes, list[int]]", ids))


def _whitespace_pattern(spelling: JsonSpelling) -> str:
    if spelling.any_key_order:
        raise ConfigError("key_order is 'any'; outlines_core writes keys in the schema's order only.")
    if spelling.free_whitespace:
        return _ANY_WHITESPACE
    if (spelling.item_separator, spelling.key_separator) != (",", ":"):
        raise ConfigError(
            f"separators is {(spelling.item_separator, spelling.key_separator)!r}; outlines_core writes (',', ':') or, "
            "with whitespace='any', any whitespace."
        )
    return ""


def _longest_first(schema: Schema) -> Schema:
    """Order the values of each `enum`: one that begins like a later one would hide it."""
    if isinstance(schema, bool):
        return schema
    ordered = map_subschemas(schema, lambda child, _: _longest_first(child))
    if "enum" in ordered:
        ordered["enum"] = sorted(ordered["enum"], key=lambda value: -len(json.dumps(value)))
    return ordered


@dataclass(frozen=True, slots=True, eq=False)
class OutlinesCoreConstraint(CompiledConstraint):
    """An automaton of outlines_core's bound to a vocabulary."""

    index: Any
    vocabulary: Vocabulary
    legal: torch.Tensor
    """`[1, ceil(num_logits / 32)]`, int32: the ids that may ever appear."""

    def new_state(self) -> ConstraintState:
        """Return a position at the start of the text."""
        return OutlinesCoreState(self, ())

    def guide_at(self, token_ids: Sequence[int]) -> Any:
        """Return a guide that has advanced over tokens."""
        from outlines_core import Guide

        guide = Guide(self.index)
        for token_id in token_ids:
            guide.advance(token_id, return_tokens=False)
        return guide


class OutlinesCoreState(ConstraintState):
    """A position inside an automaton of outlines_core's.

    End-of-sequence tokens are kept from the guide, which refuses them.
    """

    def __init__(self, compiled: OutlinesCoreConstraint, token_ids: Sequence[int]) -> None:
        """Start after `token_ids`, which must be legal."""
        self._compiled = compiled
        self._token_ids = list(token_ids)
        self._guide = compiled.guide_at(self._content())

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here; where the text is forced, with every way to cut it."""
        eos_ids = self._compiled.vocabulary.eos_ids
        if self._has_ended():
            write_token_ids(bitmask, row, eos_ids)
            return
        words = bitmask[row]
        if words.shape != self._compiled.legal[0].shape or not words.is_contiguous():
            num_words = self._compiled.legal.shape[1]
            raise ConstraintStateError(
                f"The bitmask row is {tuple(words.shape)}; it must be contiguous with {num_words} words."
            )
        self._guide.write_mask_into(words.data_ptr(), words.numel(), words.element_size())
        words &= self._compiled.legal[0]
        for eos_id in eos_ids:
            clear_token(bitmask, row, eos_id)
            if self._guide.is_finished():
                words[eos_id // 32] |= _bit(eos_id)
        if not words.any():
            raise ConstraintStateError("No token of this vocabulary can continue the constrained text.")

    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next."""
        if not self._is_legal(token_id):
            return False
        if token_id in self._compiled.vocabulary.eos_ids:
            return self.is_accepting
        return not self._has_ended() and self._guide.accepts_tokens([token_id])

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        if not self.check_token(token_id):
            raise ConstraintStateError(f"Token {token_id} is not legal here.")
        if token_id not in self._compiled.vocabulary.eos_ids:
            self._guide.advance(token_id, return_tokens=False)
        self._token_ids.append(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens, by writing the others once more."""
        if not 0 <= num_tokens <= len(self._token_ids):
            raise ConstraintStateError(f"Cannot undo {num_tokens} tokens: {len(self._token_ids)} were accepted.")
        if num_tokens:
            del self._token_ids[-num_tokens:]
            self._guide = self._compiled.guide_at(self._content())

    def forced_tokens(self) -> list[int]:
        """Return none: outlines_core knows none."""
        return []

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._guide.is_finished()

    @property
    def is_terminated(self) -> bool:
        """Whether the text must end here, or did."""
        if self._has_ended() or not self._guide.is_finished():
            return self._has_ended()
        return set(self._guide.get_tokens()) <= set(self._compiled.vocabulary.eos_ids)

    def fork(self) -> OutlinesCoreState:
        """Return an independent copy, by writing the text once more."""
        return OutlinesCoreState(self._compiled, self._token_ids)

    def _content(self) -> list[int]:
        return [token_id for token_id in self._token_ids if token_id not in self._compiled.vocabulary.eos_ids]

    def _has_ended(self) -> bool:
        return bool(self._token_ids) and self._token_ids[-1] in self._compiled.vocabulary.eos_ids

    def _is_legal(self, token_id: int) -> bool:
        in_range = 0 <= token_id < self._compiled.vocabulary.num_logits
        return in_range and is_token_allowed(self._compiled.legal, 0, token_id)


def _bit(token_id: int) -> int:
    """Return the bit of a token in its word, as the signed number that an int32 holds."""
    bit = 1 << (token_id % 32)
    return bit - (1 << 32) if bit >> 31 else bit
