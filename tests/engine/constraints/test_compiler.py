from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from llguidance import LLTokenizer

from sureact.constraints.compiler import GrammarConstraint, token_ids_named, tokenizer_of, try_compile
from sureact.constraints.json_schema import json_schema
from sureact.constraints.llguidance_state import CompiledGrammar
from sureact.errors import ConstraintCompileError
from sureact.tokens.vocabulary import Vocabulary


class Counted(GrammarConstraint):
    """A constraint that counts how often it was turned into a grammar."""

    def __init__(self, cache_key: str, lark_text: str) -> None:
        self.num_compiles = 0
        self._cache_key = cache_key
        self._lark_text = lark_text

    @property
    def cache_key(self) -> str:
        return self._cache_key

    def grammar(self, tokenizer: LLTokenizer) -> str:
        self.num_compiles += 1
        return self._lark_text


def test_equal_constraints_are_compiled_once_per_vocabulary(
    vocabulary: Vocabulary, named_vocabulary: Vocabulary
) -> None:
    compiled = json_schema({"type": "null"}).compile(vocabulary)
    assert json_schema({"type": "null"}).compile(vocabulary) is compiled
    assert json_schema({"type": "null"}).compile(named_vocabulary) is not compiled
    assert json_schema({"type": "null"}, separators=(",", ":")).compile(vocabulary) is not compiled


def test_threads_that_ask_together_compile_once(vocabulary: Vocabulary) -> None:
    constraint = Counted("threads", 'start: "a"')
    together = Barrier(4)

    def compile_together(_: int) -> object:
        together.wait()
        return constraint.compile(vocabulary)

    with ThreadPoolExecutor(4) as pool:
        compiled = list(pool.map(compile_together, range(4)))
    assert len(set(map(id, compiled))) == 1
    assert constraint.num_compiles == 1


def test_a_failure_is_raised_each_time_and_not_kept(vocabulary: Vocabulary) -> None:
    constraint = Counted("broken", "start: missing")
    for _ in range(2):
        with pytest.raises(ConstraintCompileError, match="missing"):
            constraint.compile(vocabulary)
    assert constraint.num_compiles == 2


def test_a_grammar_names_tokens_by_name_id_and_range(named_vocabulary: Vocabulary) -> None:
    tokenizer = tokenizer_of(named_vocabulary)
    assert token_ids_named('start: <tool_call> "<x>" <[1-3,9]> <|im_end|>', tokenizer) == {257, 1, 2, 3, 9, 256}


def test_a_grammar_compiles_or_comes_back_with_the_reason(vocabulary: Vocabulary) -> None:
    assert isinstance(try_compile('start: "a"', vocabulary), CompiledGrammar)
    reason = try_compile("start: missing", vocabulary)
    assert isinstance(reason, str)
    assert "missing" in reason


def test_the_tokenizer_of_a_vocabulary_is_built_once(vocabulary: Vocabulary) -> None:
    assert tokenizer_of(vocabulary) is tokenizer_of(vocabulary)
