"""Other engines as their users would run them, with no refusals of ours and no judge of finished texts."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sureact.constraints.byte_matcher import byte_tokenizer
from sureact.constraints.engines.outlines_core import compile_index
from sureact.constraints.engines.xgrammar import grammar_compiler
from sureact.constraints.token_bitmask import allocate_token_bitmask
from sureact.errors import ConstraintCompileError
from sureact.evaluation.conformance.schema_engine import CompiledCase, SchemaEngine, Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from llguidance import LLMatcher, LLTokenizer

    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.tokens.vocabulary import Vocabulary


class LlguidanceEngine(SchemaEngine):
    """Raw llguidance with its defaults: any whitespace, an error for every keyword it does not know."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokenizer = _llguidance_tokenizer(vocabulary)
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)

    def compile(self, case: ConformanceCase) -> CompiledCase:
        """Compile the case."""
        from llguidance import LLMatcher

        try:
            matcher = LLMatcher(self._tokenizer, _llguidance_grammar(case), log_level=0)
        except ValueError as error:
            raise ConstraintCompileError(str(error)) from error
        if matcher.is_error():
            raise ConstraintCompileError(matcher.get_error())
        return _LlguidanceCase(matcher, self._bitmask)


@lru_cache(maxsize=2)
def _tokenizer_of_json(tokenizer_json: str, num_logits: int, eos_ids: tuple[int, ...]) -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer(tokenizer_json, n_vocab=num_logits, eos_token=list(eos_ids))


def _llguidance_tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    if vocabulary.tokenizer_json is None:
        return byte_tokenizer()
    return _tokenizer_of_json(vocabulary.tokenizer_json, vocabulary.num_logits, vocabulary.eos_ids)


def _llguidance_grammar(case: ConformanceCase) -> str:
    from llguidance import LLMatcher, grammar_from

    match case.kind:
        case "json_schema":
            return LLMatcher.grammar_from_json_schema(json.dumps(case.schema))
        case "regex":
            return LLMatcher.grammar_from_regex(case.schema)
        case "choice":
            return grammar_from("choice", json.dumps(case.schema))


class _LlguidanceCase(CompiledCase):
    def __init__(self, matcher: LLMatcher, bitmask: torch.Tensor) -> None:
        self._matcher = matcher
        self._bitmask = bitmask

    def new_walk(self) -> Walk:
        return _LlguidanceWalk(self._matcher.deep_copy(), self._bitmask)


class _LlguidanceWalk(Walk):
    def __init__(self, matcher: LLMatcher, bitmask: torch.Tensor) -> None:
        self._matcher = matcher
        self._address = bitmask.data_ptr()
        self._num_bytes = bitmask.numel() * bitmask.element_size()

    def accept(self, token_ids: Sequence[int]) -> int:
        return self._matcher.try_consume_tokens(list(token_ids))

    def fill_mask(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._address, self._num_bytes)

    @property
    def can_end(self) -> bool:
        return self._matcher.is_accepting()


class XgrammarEngine(SchemaEngine):
    """Raw xgrammar with any whitespace, and without the strict mode that closes every object."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = grammar_compiler(vocabulary)
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)

    def compile(self, case: ConformanceCase) -> CompiledCase:
        """Compile the case."""
        try:
            return _XgrammarCase(self._grammar(case), self._bitmask)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ConstraintCompileError(str(error).strip()) from error

    def _grammar(self, case: ConformanceCase) -> Any:
        match case.kind:
            case "json_schema":
                return self._compiler.compile_json_schema(
                    json.dumps(case.schema), any_whitespace=True, strict_mode=False
                )
            case "regex":
                return self._compiler.compile_regex(case.schema)
            case "choice":
                items = " | ".join(json.dumps(item, ensure_ascii=False) for item in case.schema)
                return self._compiler.compile_grammar(f"root ::= {items}")


class _XgrammarCase(CompiledCase):
    def __init__(self, grammar: Any, bitmask: torch.Tensor) -> None:
        self._grammar = grammar
        self._bitmask = bitmask

    def new_walk(self) -> Walk:
        from xgrammar import GrammarMatcher  # pyright: ignore[reportMissingImports]  an extra

        return _XgrammarWalk(GrammarMatcher(self._grammar), self._bitmask)


class _XgrammarWalk(Walk):
    def __init__(self, matcher: Any, bitmask: torch.Tensor) -> None:
        self._matcher = matcher
        self._bitmask = bitmask

    def accept(self, token_ids: Sequence[int]) -> int:
        for count, token_id in enumerate(token_ids):
            if not self._matcher.accept_token(token_id):
                return count
        return len(token_ids)

    def fill_mask(self) -> None:
        self._matcher.fill_next_token_bitmask(self._bitmask, 0)

    @property
    def can_end(self) -> bool:
        return self._matcher.is_completed()


class OutlinesEngine(SchemaEngine):
    """What outlines makes of its own types by default: one regex, and outlines_core's automaton over the bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)

    def compile(self, case: ConformanceCase) -> CompiledCase:
        """Compile the case."""
        from jsonschema.exceptions import SchemaError
        from outlines.types.dsl import to_regex

        try:
            regex = to_regex(_outlines_term(case))
        except (SchemaError, NotImplementedError, TypeError, ValueError) as error:
            raise ConstraintCompileError(f"{type(error).__name__}: {error}") from error
        return _OutlinesCase(compile_index(regex, self._vocabulary), self._bitmask)


def _outlines_term(case: ConformanceCase) -> Any:
    from outlines.types.dsl import Choice, JsonSchema, Regex, python_types_to_terms

    match case.kind:
        case "json_schema":
            return JsonSchema(json.dumps(case.schema))
        case "regex":
            return Regex(case.schema)
        case "choice":
            return python_types_to_terms(Choice(case.schema))


class _OutlinesCase(CompiledCase):
    def __init__(self, index: Any, bitmask: torch.Tensor) -> None:
        self._index = index
        self._bitmask = bitmask

    def new_walk(self) -> Walk:
        from outlines_core import Guide

        return _OutlinesWalk(Guide(self._index), self._bitmask)


class _OutlinesWalk(Walk):
    def __init__(self, guide: Any, bitmask: torch.Tensor) -> None:
        self._guide = guide
        self._bitmask = bitmask

    def accept(self, token_ids: Sequence[int]) -> int:
        for count, token_id in enumerate(token_ids):
            try:
                self._guide.advance(token_id, return_tokens=False)
            except ValueError:
                return count
        return len(token_ids)

    def fill_mask(self) -> None:
        bitmask = self._bitmask
        self._guide.write_mask_into(bitmask.data_ptr(), bitmask.numel(), bitmask.element_size())

    @property
    def can_end(self) -> bool:
        return self._guide.is_finished()
