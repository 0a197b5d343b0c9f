import pytest

from sureact.agent.events import AnswerReady, Event, OutputDelta
from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.scripted_model import ScriptedModel
from sureact.errors import ConfigError, OutputTruncatedError, SignatureError


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
