from typing import Any

import pytest

from sureact.agent.module import Module
from sureact.agent.module_tree import predictor_places, sub_modules
from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.scripted_model import ScriptedModel
from sureact.errors import ConfigError

LM = ScriptedModel([])


def predict() -> Predict:
    return Predict("q -> a", lm=LM)


class Inner(Module):
    def __init__(self) -> None:
        self.cot = ChainOfThought("q -> a", lm=LM)


class Outer(Module):
    def __init__(self) -> None:
        self.one = predict()
        self.same = self.one
        self.inner = Inner()
        self.steps: list[Any] = [predict(), Inner(), "text", [predict()]]
        self.fixed = (predict(),)
        self.by_name: dict[Any, Any] = {"it's": predict(), 3: Inner()}
        self.note = "text"
        self.owner = self


def test_predictors_have_the_names_of_dspy():
    assert [place.name for place in predictor_places(Outer())] == [
        "one",
        "inner.cot.predict",
        "steps[0]",
        "steps[1].cot.predict",
        "steps[3][0]",
        "fixed[0]",
        "by_name['it's']",
        "by_name['3'].cot.predict",
    ]
    assert [place.name for place in predictor_places(predict())] == ["self"]


def test_sub_modules_come_nearest_first():
    names = [name for name, _ in sub_modules(Outer(), None, skip_compiled=False)]
    assert names[:3] == ["self", "self.one", "self.inner"]
    assert set(names[3:]) == {
        "self.inner.cot",
        "self.inner.cot.predict",
        "self.steps[0]",
        "self.steps[1]",
        "self.steps[1].cot",
        "self.steps[1].cot.predict",
        "self.steps[3][0]",
        "self.fixed[0]",
        "self.by_name[it's]",
        "self.by_name[3]",
        "self.by_name[3].cot",
        "self.by_name[3].cot.predict",
    }
    assert next(name for name, _ in sub_modules(Outer(), ChainOfThought, skip_compiled=False)) == "self.inner.cot"


def test_a_compiled_module_keeps_its_predictors_for_itself():
    outer = Outer()
    vars(outer.inner)["_compiled"] = True
    assert "inner.cot.predict" not in [place.name for place in predictor_places(outer)]
    assert "self.inner.cot" in [name for name, _ in sub_modules(outer, None, skip_compiled=False)]
    skipped = [name for name, _ in sub_modules(outer, None, skip_compiled=True)]
    assert "self.inner" in skipped
    assert "self.inner.cot" not in skipped


def test_a_predictor_can_be_replaced_where_its_place_changes():
    outer = Outer()
    for place in predictor_places(outer):
        if place.name != "fixed[0]":
            new = predict()
            place.replace(new)
            assert new in [found.predictor for found in predictor_places(outer)]
        else:
            with pytest.raises(ConfigError, match="It is in a tuple"):
                place.replace(predict())
    with pytest.raises(ConfigError, match="cannot replace itself"):
        predictor_places(outer.one)[0].replace(predict())
