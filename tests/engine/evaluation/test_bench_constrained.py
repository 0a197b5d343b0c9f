import json

import pytest

from sureact.engine import Engine
from sureact.errors import ConstraintError
from sureact.evaluation.bench_constrained import ConstrainedMeasurement, DecodedCall, decode_call, measure_constrained
from sureact.evaluation.tool_calls import ToolCallTask
from sureact.outputs import TokenUsage

YES = ToolCallTask("yes", '{"const": "yes"}')
NEVER = ToolCallTask("never", '{"type": "string", "minLength": 2, "maxLength": 1}')


def call(*, num_tokens: int, drafted: int = 0, accepted: int = 0) -> DecodedCall:
    usage = TokenUsage(
        prompt_tokens=1,
        cached_tokens=0,
        completion_tokens=num_tokens,
        forced_tokens=2,
        draft_tokens=drafted,
        accepted_draft_tokens=accepted,
    )
    return DecodedCall(
        text="", num_tokens=num_tokens, decode_s=0.5, mask_s=0.1, compile_s=0.2, is_complete=True, usage=usage
    )


def test_a_call_is_timed_after_its_first_token(tiny_engine: Engine) -> None:
    decoded = decode_call(tiny_engine, [*b"abc"], YES.schema_text, 20)
    assert json.loads(decoded.text) == "yes"
    assert decoded.num_tokens == 4
    assert decoded.is_complete
    assert decoded.compile_s > 0
    assert not decode_call(tiny_engine, [*b"abc"], YES.schema_text, 2).is_complete


def test_an_impossible_schema_is_an_error_of_the_call(tiny_engine: Engine) -> None:
    with pytest.raises(ConstraintError):
        decode_call(tiny_engine, [*b"abc"], NEVER.schema_text, 20)


def test_refused_schemas_are_listed_beside_the_calls(tiny_engine: Engine) -> None:
    measured = measure_constrained(tiny_engine, [NEVER, YES, YES], max_tokens=20)
    assert measured.num_complete == len(measured.calls) == 2
    assert len(measured.refused) == 1
    assert measured.refused[0].startswith("never: ")
    assert measured.num_tokens == 8


def test_figures_are_sums_over_the_calls(tiny_engine: Engine) -> None:
    calls = (call(num_tokens=10, drafted=4, accepted=1), call(num_tokens=30))
    measured = ConstrainedMeasurement(config=tiny_engine.config, calls=calls, refused=())
    assert measured.tokens_per_s == 40.0
    assert measured.mask_s == 0.2
    assert measured.compile_s == 0.2
    assert measured.forced_tokens == 4
    assert measured.draft_acceptance == 0.25


def test_nothing_measured_is_no_division_by_zero(tiny_engine: Engine) -> None:
    measured = ConstrainedMeasurement(config=tiny_engine.config, calls=(), refused=())
    assert (measured.tokens_per_s, measured.compile_s, measured.draft_acceptance) == (0.0, 0.0, None)
