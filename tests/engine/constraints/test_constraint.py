"""What every constraint promises: public bug reports are judged right, and forced text leaves no choice."""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.constraints.token_bitmask import allocate_token_bitmask
from sureact.errors import ConfigError, ConstraintCompileError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary
from sureact_kernels.masked_argmax import allowed_ids

Spells = Callable[[Constraint, str], bool]

SCHEMAS = Path(__file__).parents[2] / "data" / "schemas"
CASES_FILE = Path(__file__).parents[4] / "shared" / "data" / "constraint_cases.json"


def constraint_for(case: dict[str, Any]) -> Constraint:
    match case["kind"]:
        case "choice":
            return choice(case["schema"])
        case "regex":
            return regex(case["schema"])
        case _:
            return json_schema(case["schema"], whitespace="any")


def outcome(case: dict[str, Any], spells: Spells) -> str:
    """Return `passed`, `refused`, or what went wrong."""
    may_refuse = case.get("compile_error_ok") or case.get("expect_compile_error")
    try:
        constraint = constraint_for(case)
        spells(constraint, "")  # compiles
        rejected = [text for text in case["valid"] if not spells(constraint, text)]
    except (ConfigError, ConstraintCompileError, UnsupportedSchemaError) as error:
        return "refused" if may_refuse else f"{case['id']}: {error}"
    if case.get("expect_compile_error"):
        return f"{case['id']}: compiled"
    forbidden = case["invalid"] + case.get("invalid_syntaxlevel", []) + case.get("invalid_hard", [])
    accepted = [text for text in forbidden if can_be_written(text) and spells(constraint, text)]
    return f"{case['id']}: rejects {rejected}, accepts {accepted}" if rejected or accepted else "passed"


def can_be_written(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.skipif(not CASES_FILE.exists(), reason=f"{CASES_FILE.name} is not beside this checkout")
def test_every_collected_case_passes_or_is_refused_aloud(spells: Spells, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [outcome(case, spells) for case in json.loads(CASES_FILE.read_text(encoding="utf-8"))]
    tally = Counter(outcomes)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(outcomes)} cases: {tally['passed']} passed, {tally['refused']} refused\n")
    assert tally["passed"] + tally["refused"] == len(outcomes), sorted(set(outcomes) - {"passed", "refused"})


def test_a_text_is_its_own_value_unless_a_constraint_says_otherwise() -> None:
    class Anything(Constraint):
        @property
        def cache_key(self) -> str:
            return "anything"

        def compile(self, vocabulary: object) -> Any:
            raise NotImplementedError

    assert Anything().parse("text") == "text"


def forced_spans_of(constraint: Constraint, vocabulary: Vocabulary, seed: int, max_tokens: int) -> int:
    """Write a random text; check each forced span on the way, and return how many tokens were forced."""
    draw = random.Random(seed)
    state = constraint.compile(vocabulary).new_state()
    num_forced = 0
    for _ in range(max_tokens):
        allowed = allowed_tokens(state, vocabulary)
        ahead = state.fork()
        for token_id in state.forced_tokens():
            assert allowed_tokens(ahead, vocabulary) == [token_id]
            assert ahead.check_token(token_id)
            ahead.accept_token(token_id)
            num_forced += 1
        draw.shuffle(allowed)
        token_id = next((token_id for token_id in allowed if state.check_token(token_id)), None)
        if token_id is None or token_id in vocabulary.eos_ids:
            break
        state.accept_token(token_id)
        if state.is_terminated:
            break
    return num_forced


def allowed_tokens(state: ConstraintState, vocabulary: Vocabulary) -> list[int]:
    bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
    state.fill_bitmask(bitmask, 0)
    return allowed_ids(bitmask[0]).tolist()


def corpus_constraints() -> list[Constraint]:
    schemas = [json.loads(path.read_text(encoding="utf-8"))["schema"] for path in sorted(SCHEMAS.glob("*.json"))]
    return [
        *(json_schema(schema, additional_properties="closed") for schema in schemas),
        choice(["search", "search_web", "finish"], delimiter="\n"),
        choice(["naïve “quote”"]),
        regex(r"Thought: [a-c]{1,3} Action: (search|calculate) \[[0-9]{2}\] End"),
    ]


def check_corpus(vocabulary: Vocabulary, *, num_texts: int, max_tokens: int) -> None:
    num_forced = 0
    for constraint in corpus_constraints():
        for seed in range(num_texts):
            try:
                num_forced += forced_spans_of(constraint, vocabulary, seed, max_tokens)
            except (ConstraintCompileError, UnsupportedSchemaError):
                break  # a schema that nothing satisfies
    assert num_forced > 500


def test_where_text_is_forced_the_mask_leaves_that_token_only(
    vocabulary: Vocabulary, named_vocabulary: Vocabulary
) -> None:
    """So forced tokens need not be picked: the model could pick no other."""
    check_corpus(named_vocabulary, num_texts=2, max_tokens=40)
    check_corpus(vocabulary, num_texts=1, max_tokens=40)


@pytest.mark.slow
@pytest.mark.model
def test_where_text_is_forced_the_mask_of_a_real_vocabulary_leaves_that_token_only(real_vocabulary: Vocabulary) -> None:
    check_corpus(real_vocabulary, num_texts=3, max_tokens=40)
