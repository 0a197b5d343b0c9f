from typing import Any

import pytest

from sureact.agent.events import AnswerReady, Event, OutputDelta
from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.prediction import Example
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.signature import Signature
from sureact.errors import ConfigError, ContextWindowExceededError, OutputTruncatedError, SignatureError


def test_predict_gives_typed_outputs_in_one_generation():
    model = ScriptedModel(['{"city": "Rome", "sizes": [1, 2]}'])
    prediction = Predict("question -> city, sizes: list[int]", lm=model)(question="Where?")
    assert (prediction.city, prediction.sizes) == ("Rome", [1, 2])
    assert prediction.trajectory.steps == []
    assert prediction.usage.num_generations == 1
    assert "question: Where?" in model.sessions[0].text
    assert model.sessions[0].is_closed


def test_chain_of_thought_reasons_first():
    prediction = ChainOfThought("q -> a: int", lm=ScriptedModel(['{"reasoning": "1 + 1", "a": 2}']))(q="?")
    assert list(prediction) == ["reasoning", "a"]


def test_events_show_the_outputs_as_they_come():
    events: list[Event] = []
    Predict("q -> a", lm=ScriptedModel(['{"a": "hello there"}']), on_event=events.append)(q="?")
    deltas = [event.text for event in events if isinstance(event, OutputDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == '{"a": "hello there"}'
    assert events[-1] == AnswerReady({"a": "hello there"}, "finish")


def test_the_session_is_closed_when_the_model_fails():
    model = ScriptedModel([KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        Predict("q -> a", lm=model)(q="?")
    assert model.sessions[0].is_closed


def test_wrong_use_is_refused():
    with pytest.raises(ConfigError):
        Predict("q -> a", lm=ScriptedModel([]), max_tokens=0)
    with pytest.raises(SignatureError):
        Predict("q -> a", lm=ScriptedModel([]))(question="?")
    with pytest.raises(OutputTruncatedError):
        Predict("q -> a", lm=ScriptedModel(['{"a": "hello there"}']), max_tokens=5)(q="?")


def test_without_a_model_the_default_one_is_taken(monkeypatch: pytest.MonkeyPatch):
    lm = ScriptedModel([])
    monkeypatch.setattr("sureact.agent.predict.default_model", lambda: lm)
    assert Predict("q -> a").lm is lm
    assert ChainOfThought("q -> a").lm is lm


DEMOS: list[Any] = [{"q": "1?", "a": "one"}, Example(q="2?", a="two", augmented=True)]


def test_demos_are_turns_before_the_inputs():
    model = ScriptedModel(['{"a": "three"}'])
    Predict("q -> a", lm=model, demos=DEMOS)(q="3?")
    turns = model.sessions[0].text.split("<|im_start|>")[2:]
    assert turns == [
        "user\nq: 1?<|im_end|>\n",
        'assistant\n{"a": "one"}<|im_end|>\n',
        "user\nq: 2?<|im_end|>\n",
        'assistant\n{"a": "two"}<|im_end|>\n',
        "user\nq: 3?<|im_end|>\n",
        'assistant\n{"a": "three"}',
    ]


def test_demos_that_lack_fields_come_first_and_say_so():
    cot = ChainOfThought("q -> a", lm=ScriptedModel(['{"reasoning": "r", "a": "x"}']))
    cot.predict.demos = [{"q": "1?", "reasoning": "r", "a": "one"}, {"q": "2?", "a": "two"}]
    cot(q="?")
    prompt = cot.history[0].prompt
    assert "An example of the task; not all fields of it are given.\n\nq: 2?" in prompt
    assert prompt.index("2?") < prompt.index("1?")
    assert '{"a": "two"}' in prompt


def test_a_demo_is_text_whatever_it_holds():
    model = ScriptedModel(['{"a": "x"}'])
    Predict("q -> a", lm=model, demos=[{"q": "<|im_end|>", "a": "<|im_start|>"}])(q="?")
    assert bytes(id_ for id_ in model.sessions[0].token_ids if id_ < 256).decode().count("<|im_") == 2


def test_demos_may_change_at_any_time():
    model = ScriptedModel(['{"a": "x"}'] * 4)
    predict = Predict("q -> a", lm=model)
    predict(q="?")
    predict.demos.append({"q": "1?", "a": "one"})
    predict(q="?")
    predict.demos[0]["a"] = "uno"  # pyright: ignore[reportIndexIssue]  a dictionary, as given
    predict(q="?")
    predict.reset()
    predict(q="?")
    assert [('"one"' in s.text, '"uno"' in s.text) for s in model.sessions] == [
        (False, False),
        (True, False),
        (False, True),
        (False, False),
    ]


def test_demos_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="unknown fields"):
        Predict("q -> a", lm=ScriptedModel([]), demos=[{"q": "?", "b": "x"}])
    predict = Predict("q -> a: int", lm=ScriptedModel([]))
    predict.demos.append({"q": "?", "a": "many"})
    with pytest.raises(ConfigError, match="Demo 0 does not fit"):
        predict(q="?")


def test_another_signature_may_be_set():
    predict = Predict("q -> a", lm=ScriptedModel(['{"b": 3}']))
    predict.signature = Signature("q -> b: int", "Count.")
    assert predict(q="?").b == 3
    assert "Count." in predict.history[0].prompt
    assert repr(predict) == "Predict(q -> b)"


def test_inputs_by_position_are_refused_with_the_names():
    for module in (
        Predict("q, k: int -> a", lm=ScriptedModel([])),
        ChainOfThought("q, k: int -> a", lm=ScriptedModel([])),
    ):
        with pytest.raises(
            SignatureError, match=r"Inputs are given by name, as in `module\(q=\.\.\., k=\.\.\.\)`; 2 came"
        ):
            module("?", 3)


def test_inputs_that_do_not_fit_are_an_error_of_the_context():
    with pytest.raises(ContextWindowExceededError):
        Predict("q -> a", lm=ScriptedModel([], context_len=200))(q="x" * 200)


def test_the_state_of_a_predictor_is_its_own():
    predict = Predict("q -> a", lm=ScriptedModel([]), demos=DEMOS)
    state = predict.dump_state()
    assert list(state) == ["demos", "signature", "lm"]
    assert predict.dump_state(json_mode=False)["demos"][1] == dict(DEMOS[1])
    other = Predict("q -> a", lm=ScriptedModel([]))
    assert other.load_state(state) is other
    assert other.dump_state() == state
