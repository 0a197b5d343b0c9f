import json
from datetime import date
from typing import Any

import pytest

from sureact.agent.history import History, HistoryPrediction, Turn, TurnCall, checked_history, json_values
from sureact.agent.prediction import RunUsage
from sureact.agent.trajectory import Trajectory
from sureact.errors import ConfigError

CALL = TurnCall(id="call_0_0", tool_name="add", tool_args={"a": [1]}, observation="é", is_error=True)
TURNS = (
    Turn(index=0, inputs={"q": "?"}, thought="t", calls=(CALL,)),
    Turn(index=1, inputs=None, thought="", thinking="hm", calls=(CALL,), outputs={"answer": 1}),
)
HISTORY = History(turns=TURNS, token_ids=(1, 2, 3), origin="abc")


def changed(**values: Any) -> dict[str, Any]:
    return {**HISTORY.to_dict(), **values}


def turn(**values: Any) -> dict[str, Any]:
    return changed(turns=[{**HISTORY.to_dict()["turns"][0], **values}])


def call(**values: Any) -> dict[str, Any]:
    return turn(calls=[{**HISTORY.to_dict()["turns"][0]["calls"][0], **values}])


def test_a_history_comes_back_whole_from_json():
    assert History.from_dict(json.loads(json.dumps(HISTORY.to_dict()))) == HISTORY
    assert History.from_dict(HISTORY.to_dict()) == HISTORY
    assert History.from_dict(History().to_dict()) == History()


def test_turns_put_together_by_hand_need_no_token_ids():
    look = {"id": "call_0_0", "tool_name": "look", "tool_args": {}, "observation": ""}
    history = History.from_dict({"turns": [{"index": 0, "inputs": {}, "thought": "", "calls": [look]}]})
    assert (len(history), history.token_ids, history.origin) == (1, (), "")


def test_what_a_later_version_may_add_to_a_turn_is_left_out():
    assert History.from_dict(turn(weather="fine")).turns == TURNS[:1]
    assert History.from_dict(call(weather="fine")).turns == TURNS[:1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "not \\[\\]"),
        ("x" * 500, "x\\.\\.\\."),
        ({}, "to_dict"),
        (changed(version=2), "version 2"),
        (changed(turns=3), "damaged"),
        (changed(turns=["a"]), "damaged"),
        (changed(turns=[{}]), "'calls'"),
        (changed(token_ids=[1.5]), "1.5 is no token id"),
        (changed(token_ids=[True]), "no token id"),
        (changed(token_ids=[-1]), "no token id"),
        (turn(index=1), "turn 0 says that it is turn 1"),
        (turn(inputs=None), "first turn has no inputs"),
        (turn(inputs=[1]), "inputs of turn 0"),
        (turn(outputs="x"), "outputs of turn 0"),
        (turn(thought=None), "thought of turn 0"),
        (turn(calls=[]), "has no call"),
        (call(observation=1), "observation of a call"),
        (call(tool_args=None), "tool_args of call_0_0"),
    ],
)
def test_anything_else_is_refused(values: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        History.from_dict(values)


def test_a_history_may_be_given_as_itself_as_its_dictionary_or_not_at_all():
    assert checked_history(HISTORY) is HISTORY
    assert checked_history(HISTORY.to_dict()) == HISTORY
    assert checked_history(None) == History()


def test_inputs_are_kept_as_json_has_them():
    assert json_values({"a": date(2024, 1, 2), "b": {3}, "c": object}) == {
        "a": "2024-01-02",
        "b": [3],
        "c": str(object),
    }


def test_a_long_context_does_not_fill_the_screen():
    assert "token_ids" not in repr(History(token_ids=tuple(range(9000))))


@pytest.mark.parametrize(("forced_by", "reason"), [(None, "submit"), ("context", "forced_submit")])
def test_a_prediction_tells_why_it_ended(forced_by: Any, reason: str):
    prediction = HistoryPrediction({"answer": 1}, HISTORY, forced_by, RunUsage(), Trajectory())
    assert (prediction.termination_reason, prediction.forced_by) == (reason, forced_by)
    assert (prediction.answer, prediction.history) == (1, HISTORY)
    assert dict(prediction) == {"answer": 1}
