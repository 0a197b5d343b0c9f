import datetime
import json
from typing import Any

import pytest
from pydantic import BaseModel

from sureact.agent.demos import checked_demos, demo_json, dumped_demos
from sureact.agent.prediction import Example
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ConfigError


class Place(BaseModel):
    name: str


class Find(Signature):
    question: str = InputField()
    day: datetime.date = InputField()
    place: Place = OutputField()
    sure: bool = OutputField()


FIND = Signature.of(Find)
WHOLE: dict[str, Any] = {"question": "q", "day": "2024-02-29", "place": {"name": "Rome"}, "sure": True}


def test_fields_get_the_types_of_the_signature():
    (demo,) = checked_demos([WHOLE], FIND)
    assert demo.inputs == {"question": "q", "day": datetime.date(2024, 2, 29)}
    assert demo.outputs == {"place": Place(name="Rome"), "sure": True}
    assert demo.is_complete


def test_those_that_lack_fields_come_first_and_the_order_stays():
    demos = [WHOLE, {"question": "a", "sure": False}, {**WHOLE, "question": "z"}, {"question": "b", "sure": True}]
    checked = checked_demos(demos, FIND)
    assert [demo.inputs["question"] for demo in checked] == ["a", "b", "q", "z"]
    assert [demo.is_complete for demo in checked] == [False, False, True, True]


def test_examples_are_demos_and_the_mark_of_an_optimizer_is_no_field():
    (demo,) = checked_demos([Example(WHOLE, augmented=True).with_inputs("question")], FIND)
    assert demo.is_complete
    with pytest.raises(ConfigError, match="does not fit"):
        checked_demos([{"q": "?", "augmented": "perhaps"}], Signature("q -> augmented: bool"))


@pytest.mark.parametrize(
    ("demo", "reason"),
    [
        ({**WHOLE, "extra": 1}, r"Demo 0 has the unknown fields \['extra'\]; there are \['question', 'day'"),
        ({**WHOLE, "day": "soon"}, "Demo 0 does not fit the types of its fields: day: "),
        ({"question": "q"}, "needs at least one input and one output"),
        ({"sure": True}, "needs at least one input and one output"),
        ({}, "needs at least one input and one output"),
        ("question", "it must be a mapping"),
    ],
)
def test_what_is_no_demo_is_refused(demo: Any, reason: str):
    with pytest.raises(ConfigError, match=reason):
        checked_demos([demo], FIND)


def test_without_inputs_in_the_signature_outputs_are_enough():
    assert checked_demos([{"a": "x"}], Signature("-> a"))[0].outputs == {"a": "x"}


def test_outputs_are_written_as_the_model_writes_them():
    assert demo_json({"place": Place(name="Köln"), "n": 1}) == '{"place": {"name": "Köln"}, "n": 1}'


def test_dumped_demos_are_json_or_copies():
    trajectory = Trajectory([Step(index=0, thought="t", tool_name="a", tool_args={"x": 1}, observation="o")])
    demo = Example(day=datetime.date(2024, 2, 29), trajectory=trajectory)
    (dumped,) = dumped_demos([demo], json_mode=True)
    assert json.loads(json.dumps(dumped)) == dumped
    assert dumped["day"] == "2024-02-29"
    assert dumped["trajectory"]["tool_args_0"] == {"x": 1}
    assert dumped_demos([demo], json_mode=False) == [dict(demo)]
    with pytest.raises(ConfigError, match="A demo cannot be saved as JSON"):
        dumped_demos([{"a": object()}], json_mode=True)
