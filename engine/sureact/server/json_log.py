"""Logs as lines of JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from typing_extensions import override


class JsonFormatter(logging.Formatter):
    """Writes a record as one line: the members of a message that is itself an object of JSON, else its text."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        message = record.getMessage()
        entry |= _members(message) if record.name == "sureact.requests" else {"message": message}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_as_json(*, level: int) -> None:
    """Write the logs of sureact and of uvicorn to standard error, a line of JSON each.

    Args:
        level: least level of all but the log of requests, which says itself whether it is wanted.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name, least in (("sureact", level), ("uvicorn", level), ("sureact.requests", logging.INFO)):
        logger = logging.getLogger(name)
        logger.setLevel(least)
        if name != "sureact.requests":  # which is below `sureact`
            logger.handlers = [handler]
            logger.propagate = False


def _members(message: str) -> dict[str, object]:
    return json.loads(message)
