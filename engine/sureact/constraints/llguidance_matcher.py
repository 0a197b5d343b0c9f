"""Building what llguidance calls a matcher: with room for large grammars, and for references that lead far down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.constraints.deep_stack import call_on_deep_stack

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_MAX_ITEMS_IN_ROW = 100_000
"""Alternatives at one point. Beyond llguidance's own limit of 2,000 a grammar compiles, and its text cannot go on."""
_MAX_REFERENCES = 40
"""llguidance 1.9 follows references by recursion, and a stack that overflows ends the process: some systems give a
thread half a megabyte."""
_STACK_BYTES_PER_REFERENCE = 64 << 10
_MAX_STACK_BYTES = 1 << 30


def new_matcher(tokenizer: LLTokenizer, grammar_text: str, *, lexer_fuel: int | None = None) -> LLMatcher:
    """Compile a grammar. What llguidance refuses is found in the matcher's error text, as nothing is raised.

    Args:
        tokenizer: of the vocabulary to compile for.
        grammar_text: Lark, or the JSON text that `LLMatcher.grammar_from_json_schema` returns.
        lexer_fuel: what its regexes may take, from compiling until the first mask is computed; 50,000 are a
            millisecond.
    """
    from llguidance import LLMatcher, LLParserLimits

    def build() -> LLMatcher:
        limits = LLParserLimits(max_items_in_row=_MAX_ITEMS_IN_ROW, initial_lexer_fuel=lexer_fuel)
        return LLMatcher(tokenizer, grammar_text, log_level=0, limits=limits)

    num_references = grammar_text.count("$ref")
    if num_references <= _MAX_REFERENCES:
        return build()
    stack_bytes = min(_MAX_STACK_BYTES, num_references * _STACK_BYTES_PER_REFERENCE + (16 << 20))
    return call_on_deep_stack(build, stack_bytes=stack_bytes)
