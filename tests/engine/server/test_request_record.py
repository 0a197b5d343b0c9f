from types import SimpleNamespace
from typing import Any, cast

from sureact.outputs import StreamDelta
from sureact.server.metrics import Metrics
from sureact.server.request_record import RequestRecord, compile_time, current_record, new_generation, recorded
from sureact.server.turn_events import TurnUsage


def make() -> RequestRecord:
    metrics = Metrics("tiny", lambda: cast("Any", SimpleNamespace()), lambda: 0)
    return RequestRecord.of({"headers": [], "method": "POST", "path": "/v1/x"}, metrics)


def test_tokens_and_ends_are_noted() -> None:
    record = make()
    with recorded(record):
        assert current_record() is record
        record.begin()
        generation = new_generation()
        generation.saw(StreamDelta(text=""))
        assert generation.first_at is None
        generation.saw(StreamDelta(text="a", token_ids=(1,)))
        generation.saw(StreamDelta(text="bc", token_ids=(2, 3)))
        generation.end(TurnUsage(prompt_tokens=5, cached_tokens=2, completion_tokens=3), "stop")
        with compile_time():
            pass
    assert current_record() is None
    entry = record.entry("tiny")
    assert (entry["prompt_tokens"], entry["cached_tokens"], entry["completion_tokens"]) == (5, 2, 3)
    assert entry["finish_reasons"] == ["stop"]
    assert "body" not in entry


def test_without_a_record_nothing_is_noted() -> None:
    generation = new_generation()
    generation.saw(StreamDelta(text="a", token_ids=(1,)))
    generation.end(TurnUsage(), "stop")
    with compile_time():
        pass


def test_only_the_first_text_of_a_request_has_its_waiting_in_its_time() -> None:
    record = make()
    record.arrived_at -= 100
    with recorded(record):
        record.begin()
        first, later = new_generation(), new_generation(is_later=True)
    assert (first.arrived_at, first.started_at) == (record.arrived_at, record.begun_at)
    assert later.arrived_at == later.started_at > record.arrived_at + 99
