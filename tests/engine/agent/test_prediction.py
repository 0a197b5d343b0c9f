import copy
import datetime
import pickle

import pytest

from sureact.agent.prediction import Example, Prediction, Record, RunUsage
from sureact.errors import ConfigError
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


@pytest.mark.parametrize("record", [Prediction(answer="a"), Example(answer="a")], ids=["prediction", "example"])
def test_a_field_that_is_set_is_the_same_by_name_by_key_and_in_every_view(record: Record):
    record.answer = "b"
    assert record["answer"] == record.answer == "b"
    record["answer"] = "c"
    record.more = 1
    assert dict(record) == {"answer": "c", "more": 1}
    assert record.answer == "c"
    assert repr(record) == f"{type(record).__name__}(answer='c', more=1)"
    assert dict(copy.deepcopy(record)) == dict(pickle.loads(pickle.dumps(record))) == dict(record)
    del record.more
    del record["answer"]
    assert dict(record) == {}
    with pytest.raises(AttributeError, match="No field 'answer'"):
        _ = record.answer
    with pytest.raises(AttributeError, match="No field 'answer'"):
        del record.answer


def test_an_input_that_is_set_is_the_one_that_a_module_gets():
    example = Example(question="q").with_inputs("question", "k")
    example.question, example.k = "other", 3
    assert example.inputs() == {"question": "other", "k": 3}
    assert example.to_dict() == {"question": "other", "k": 3}


def test_what_a_prediction_has_beside_its_outputs_is_set_and_is_no_output():
    prediction = Prediction(answer="a")
    prediction.termination_reason = "max_iters"
    prediction.usage = RunUsage(num_generations=3)
    assert (prediction.termination_reason, prediction.usage.num_generations) == ("max_iters", 3)
    assert dict(prediction) == {"answer": "a"}
    for name in ("usage", "trajectory", "get_lm_usage", "_lm_usage"):
        with pytest.raises(ConfigError, match=name):
            Prediction({name: 1})
    with pytest.raises(ConfigError, match="set_lm_usage"):
        prediction.set_lm_usage = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_fields_with_names_of_our_own_break_nothing():
    example = Example({"_values": 1, "_input_names": 2, "keys": 3, "_id": 4, "items": 5}).with_inputs("keys", "_id")
    assert dict(example) == {"_values": 1, "_input_names": 2, "keys": 3, "_id": 4, "items": 5}
    assert example.inputs() == {"keys": 3, "_id": 4}
    assert (example._id, example.items) == (4, 5)
    for name in ("_id", "keys"):
        with pytest.raises(AttributeError, match=rf"record\['{name}'\] = "):
            setattr(example, name, 6)
