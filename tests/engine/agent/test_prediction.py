import pytest

from sureact.agent.prediction import Example, Prediction, RunUsage
from sureact.outputs import StepOutput, StepTimings, TokenUsage


def test_outputs_are_attributes_and_keys():
    prediction = Prediction({"answer": 42, "items": ["a"]}, usage=RunUsage())
    assert prediction.answer == prediction["answer"] == 42
    assert prediction.items == ["a"]
    assert list(prediction) == ["answer", "items"]
    assert "Prediction(answer=42" in repr(prediction)


def test_an_unknown_field_names_the_known_ones():
    with pytest.raises(AttributeError, match="No field 'anser'; there are answer"):
        _ = Prediction({"answer": 1}, usage=RunUsage()).anser


def test_usage_adds_up():
    usage = RunUsage()
    for _ in range(2):
        usage.add(
            StepOutput(
                text="",
                token_ids=(),
                finish_reason="stop",
                usage=TokenUsage(prompt_tokens=10, cached_tokens=8, completion_tokens=4),
                timings=StepTimings(prefill_s=1, decode_s=2),
            )
        )
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (20, 16, 8)
    assert usage.tokens_per_s == 2
    assert RunUsage().tokens_per_s == 0


def test_an_example_tells_inputs_from_outputs():
    example = Example(question="q", answer="a").with_inputs("question")
    assert example.inputs() == {"question": "q"}
    assert example.answer == "a"
    with pytest.raises(ValueError, match="with_inputs"):
        Example({"question": "q"}).inputs()
