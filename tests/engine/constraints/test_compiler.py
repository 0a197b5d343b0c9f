from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from llguidance import LLTokenizer

from sureact.constraints.choice import choice
from sureact.constraints.compiler import GrammarConstraint, control_token_id, token_ids_named
from sureact.constraints.grammar import grammar
from sureact.constraints.json_schema import json_schema
from sureact.errors import ConfigError, ConstraintCompileError
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


def test_a_vocabulary_without_an_end_is_refused() -> None:
    endless = Vocabulary(
        token_bytes=(b"a",),
        control_ids=frozenset(),
        unused_ids=frozenset(),
        eos_ids=(),
        tokenizer_json=None,
        fingerprint="endless",
    )
    with pytest.raises(ConfigError, match="end-of-sequence"):
        choice(["a"]).compile(endless)


def test_control_tokens_are_found_by_their_whole_name(named_vocabulary: Vocabulary) -> None:
    tokenizer = LLTokenizer(named_vocabulary.tokenizer_json or "", n_vocab=262, eos_token=[256])
    assert control_token_id(tokenizer, "<tool_call>") == 257
    assert control_token_id(tokenizer, "<tool") is None
    assert control_token_id(tokenizer, "a") is None
    assert token_ids_named('start: <tool_call> "<x>" <[1-3,9]> <|im_end|>', tokenizer) == {257, 1, 2, 3, 9, 256}


def test_the_tokenizer_without_a_tokenizer_takes_the_longest_token(vocabulary: Vocabulary) -> None:
    forced = grammar('start: "abcab" /[xy]+/').compile(vocabulary).new_state().forced_tokens()
    assert forced[:1] == [261]
    assert b"".join(vocabulary.token_bytes[token_id] for token_id in forced) in (b"abc", b"abcab")
