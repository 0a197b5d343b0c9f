import copy
import datetime

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


def test_outputs_may_be_given_by_name():
    prediction = Prediction({"a": 1}, b=2)
    assert dict(prediction) == {"a": 1, "b": 2}
    assert prediction.get_lm_usage() == {}


def test_an_example_splits_into_inputs_and_labels_and_copies_know_the_split():
    example = Example(question="q", answer="a", source="s").with_inputs("question")
    assert (example.inputs(), example.labels()) == ({"question": "q"}, {"answer": "a", "source": "s"})
    assert example.copy(answer="b").labels() == {"answer": "b", "source": "s"}
    assert example.without("source").labels() == {"answer": "a"}
    assert Example(example, more=1).inputs() == {"question": "q"}
    assert Example(day=datetime.date(2024, 2, 29)).to_dict() == {"day": "2024-02-29"}
    with pytest.raises(ValueError, match="with_inputs"):
        Example(question="q").labels()


def test_records_copy_deeply():
    example = Example(tags=["a"]).with_inputs("tags")
    other = copy.deepcopy(example)
    other.tags.append("b")
    assert (example.tags, other["tags"], other.inputs()) == (["a"], ["a", "b"], {"tags": ["a", "b"]})
