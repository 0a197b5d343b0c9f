import pytest
from pydantic import BaseModel, field_validator

from sureact.agent.extraction import OutputExtraction
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.signature import OutputField, Signature
from sureact.errors import InternalError, OutputTruncatedError, SignatureError
from sureact.outputs import FinishReason, StepOutput, TokenUsage


class Even(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


class Pick(Signature):
    even: Even = OutputField(desc="any")


def generated(text: str, finish_reason: FinishReason = "stop") -> StepOutput:
    usage = TokenUsage(prompt_tokens=0, cached_tokens=0, completion_tokens=9)
    return StepOutput(text=text, token_ids=(), finish_reason=finish_reason, usage=usage)


def test_outputs_come_back_typed():
    extraction = OutputExtraction(Signature.of(Pick), with_reasoning=True)
    outputs = extraction.parse(generated('{"reasoning": "r", "even": {"value": 2}}'))
    assert outputs == {"reasoning": "r", "even": Even(value=2)}


def test_fields_are_listed_in_order_with_types_and_descriptions():
    lines = OutputExtraction(Signature.of(Pick), with_reasoning=True).field_lines()
    assert lines[0].startswith("reasoning: str")
    assert lines[1] == "even: {value: int}, any"


def test_a_text_cut_by_its_budget_is_not_parsed():
    with pytest.raises(OutputTruncatedError, match=r"raise max_tokens\."):
        OutputExtraction(Signature.of(Pick), with_reasoning=False).parse(generated('{"even": {', "length"))


def test_a_validator_that_no_schema_shows_is_reported():
    with pytest.raises(SignatureError, match="odd"):
        OutputExtraction(Signature.of(Pick), with_reasoning=False).parse(generated('{"even": {"value": 1}}'))


def test_a_text_that_violates_the_schema_is_our_fault():
    with pytest.raises(InternalError):
        OutputExtraction(Signature.of(Pick), with_reasoning=False).parse(generated('{"even": 5}'))


def test_a_model_can_write_nothing_else():
    from sureact.errors import ConstraintStateError
    from sureact.sampling_params import SamplingParams

    extraction = OutputExtraction(Signature.of(Pick), with_reasoning=False)
    with pytest.raises(ConstraintStateError):
        ScriptedModel(['{"even": {"value": 2, "more": 1}}']).session().generate(SamplingParams(), extraction.constraint)
