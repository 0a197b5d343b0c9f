"""Questions that the tests of all guards ask: how far can a text be written, and may it end there?"""

from collections.abc import Callable

import pytest

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

Written = Callable[[Schema, str], str]


@pytest.fixture(scope="session")
def written() -> Written:
    """The part of a text that a schema's guard lets through, fed byte by byte; `.` after it when it may end there."""

    def write(schema: Schema, text: str) -> str:
        state = JsonGuard(NormalSchema(schema, {})).new_state()
        data = text.encode()
        for index in range(len(data)):
            if not state.feed(data[index : index + 1]):
                return data[:index].decode()
        return text + "." if state.can_end() else text

    return write
