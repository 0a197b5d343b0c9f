import json
import logging
from collections.abc import Iterator

import pytest

from sureact.server.json_log import JsonFormatter, log_as_json

NAMES = ("sureact", "uvicorn", "sureact.requests")


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Leaves the loggers as they were."""
    kept = [(logging.getLogger(name), *vars_of(name)) for name in NAMES]
    yield
    for logger, level, handlers, propagate in kept:
        logger.setLevel(level)
        logger.handlers, logger.propagate = handlers, propagate


def vars_of(name: str) -> tuple[int, list[logging.Handler], bool]:
    logger = logging.getLogger(name)
    return logger.level, logger.handlers, logger.propagate


def test_a_record_is_a_line_of_json() -> None:
    record = logging.LogRecord("sureact.server.serving", logging.WARNING, "x.py", 1, "two\nlines %s", ("é",), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("warning", "sureact.server.serving", "two\nlines é")


def test_errors_bring_their_traceback() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("sureact", logging.ERROR, "x.py", 1, "failed", (), info)
    assert "ZeroDivisionError" in json.loads(JsonFormatter().format(record))["traceback"]


def test_lines_of_requests_are_merged(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json(level=logging.ERROR)
    logging.getLogger("sureact.requests").info("%s", json.dumps({"request_id": "r1"}))
    logging.getLogger("sureact.server.app").warning("hidden")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["request_id"] == "r1"
