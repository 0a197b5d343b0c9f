import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.language_model import LanguageModel
from sureact.agent.scripted_model import CONTROL_TOKENS, ScriptedModel, byte_vocabulary, decode, encode
from sureact.constraints.regex import regex
from sureact.errors import ConstraintStateError, PromptTooLongError, SessionError
from sureact.sampling_params import SamplingParams


def test_it_has_the_shape_of_a_language_model():
    model: LanguageModel = ScriptedModel(["a"])
    assert model.session().generate(SamplingParams()).text == "a"


@given(st.text())
def test_text_and_ids_are_the_same_thing(text: str):
    assert decode(encode(text)) == text


def test_the_vocabulary_is_the_bytes_and_the_control_tokens():
    vocabulary = byte_vocabulary()
    assert [vocabulary.token_bytes[value] for value in range(256)] == [bytes([value]) for value in range(256)]
    assert vocabulary.control_ids == {256 + index for index in range(len(CONTROL_TOKENS))}
    assert vocabulary.eos_ids == (256,)


def test_the_stop_that_ends_first_cuts():
    params = SamplingParams(stop=["\n", "ab", [ord("x")]])
    assert ScriptedModel(["zab\nx"]).session().generate(params).text == "z"
    assert ScriptedModel(["zxab"]).session().generate(params).text == "z"
    kept = ScriptedModel(["z\nx"]).session().generate(SamplingParams(stop="\n", include_stop=True))
    assert (kept.text, kept.stop_reason) == ("z\n", "\n")


def test_the_budget_cuts_too():
    output = ScriptedModel(["abc"]).session().generate(SamplingParams(max_tokens=2))
    assert (output.text, output.finish_reason) == ("ab", "length")


@pytest.mark.parametrize("text", ["ac", "a"])
def test_a_script_that_the_constraint_forbids_is_an_error(text: str):
    with pytest.raises(ConstraintStateError):
        ScriptedModel([text]).session().generate(SamplingParams(), regex("ab"))


def test_sessions_refuse_what_an_engine_refuses():
    session = ScriptedModel([], context_len=3).session()
    with pytest.raises(SessionError, match="ends in a space"):
        session.append("a ")
    with pytest.raises(PromptTooLongError):
        session.append("abcd")
    with pytest.raises(SessionError, match="used up"):
        session.generate(SamplingParams())
    session.close()
    with pytest.raises(SessionError, match="closed"):
        session.append("a")


def test_control_tokens_in_appended_text_are_text():
    session = ScriptedModel([]).session()
    assert session.append("<tool_call>") == 11
    assert session.append("<tool_call>", parse_control_tokens=True) == 1
