from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from sureact.agent.events import Event, ThoughtDelta


def test_events_cannot_be_changed():
    event = ThoughtDelta(0, "a")
    with pytest.raises(FrozenInstanceError):
        event.text = "b"  # pyright: ignore[reportAttributeAccessIssue]


def test_every_event_has_a_type_of_its_own():
    assert len(get_args(Event)) == 10
