from typing import Any

import pytest

from sureact.agent.callback import Callback, active_call_id, checked_callbacks, observed
from sureact.agent.module_scope import Scope, entered
from sureact.agent.predict import Predict
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.usage_tracker import UsageTracker
from sureact.errors import ConfigError


class Recorder(Callback):
    """Notes what it is told, with the call that goes on at that moment."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.ids: list[str] = []
        self.around: list[str | None] = []

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.ids.append(call_id)
        self.around.append(active_call_id())
        self.told.append(("start", instance, inputs))

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        self.ids.append(call_id)
        self.around.append(active_call_id())
        self.told.append(("end", outputs, type(exception)))


def test_handlers_are_told_of_start_and_end():
    recorder = Recorder()
    with observed("module", "m", {"q": 1}, own=[recorder]) as call:
        call.outputs = 5
    assert recorder.told == [("start", "m", {"q": 1}), ("end", 5, type(None))]
    assert len(set(recorder.ids)) == 1


def test_an_error_is_told_and_raised():
    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt), observed("module", "m", {}, own=[recorder]):
        raise KeyboardInterrupt
    assert recorder.told[-1] == ("end", None, KeyboardInterrupt)


def test_in_a_handler_the_active_call_is_the_one_around():
    recorder = Recorder()
    assert active_call_id() is None
    with entered(Scope(UsageTracker(), callbacks=(recorder,))), observed("module", "outer", {}) as outer:
        assert active_call_id() == outer.call_id
        with observed("module", "inner", {}) as inner:
            assert active_call_id() == inner.call_id
    assert recorder.around == [None, outer.call_id, outer.call_id, None]
    assert active_call_id() is None


def test_a_handler_that_raises_is_logged_and_the_call_goes_on(caplog: pytest.LogCaptureFixture):
    class Broken(Callback):
        def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            raise ValueError("no disk")

    with observed("tool", "t", {}, own=[Broken()]) as call:
        call.outputs = 1
    assert "Broken.on_tool_start raised ValueError: no disk" in caplog.text


def test_a_handler_changes_no_inputs():
    class Greedy(Callback):
        def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            inputs.clear()

    inputs = {"a": 1}
    with observed("tool", "t", inputs, own=[Greedy()]):
        assert inputs == {"a": 1}


def test_all_handlers_do_nothing_by_default():
    for kind in ("module", "lm", "tool"):
        with observed(kind, "x", {}, own=[Callback()]) as call:
            assert call.is_heard
    assert not call.exception


def test_objects_of_other_classes_are_told_what_they_handle():
    class OfDspy:
        told = 0

        def on_tool_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
            self.told += outputs

    other: Any = OfDspy()
    for kind in ("tool", "lm"):
        with observed(kind, "x", {}, own=[other]) as call:
            call.outputs = 2
    assert checked_callbacks([other]) == [other]
    assert other.told == 2


@pytest.mark.parametrize("callback", [Recorder, "text", None, object()])
def test_what_handles_nothing_is_refused(callback: Any):
    with pytest.raises(ConfigError, match="it must be an object with some of on_module_start"):
        Predict("q -> a", lm=ScriptedModel([]), callbacks=[callback])
