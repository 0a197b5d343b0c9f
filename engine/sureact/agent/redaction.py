"""Takes secrets out of the records of a trace before they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from sureact.errors import ConfigError

MARK = "[redacted]"
Pattern = str | re.Pattern[str]
"""The name of a key whose values are secret, in any case; or a compiled expression for secrets in any text."""

# Written by us, or named in the header, so no secret; with a mark in their place the file could not be read again.
_MACHINE_FIELDS = {
    *("type", "run_id", "time_s", "version", "sureact_version", "digest", "constraint", "usage", "timings"),
    *("finish_reason", "termination_reason", "prompt_format", "on_repeat", "limits", "name", "tool_name"),
    *("names", "require_tools", "decision", "outcome", "demos_digest"),
}
_TEXTS_BY_NAME = {"inputs", "tool_args", "outputs"}
_ID_FIELDS = {"token_ids", "tokens", "forced", "context_ids"}
# A shorter value would be found in words that have nothing to do with it.
_LEAST_LEARNED = 4
_VALUE = r"""("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&}\])"']+)"""


class Redactor:
    """Cleans the records of one run.

    The value of a secret key is a secret wherever it appears later, too. Token ids spell the text out, so a record in
    which anything was replaced has none.
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        """Take the patterns.

        Raises:
            ConfigError: one is neither a name nor an expression, is empty, or matches nothing as well.
        """
        given = checked_patterns(patterns)
        self._keys = {pattern.casefold() for pattern in given if isinstance(pattern, str)}
        self._expressions = [pattern for pattern in given if not isinstance(pattern, str)]
        self._assignments = _assignments(self._keys)
        self._learned: set[str] = set()
        self._literals: re.Pattern[str] | None = None

    def clean(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record without secrets."""
        self._learn(record)
        cleaned: dict[str, Any] = self._cleaned(record)
        # A context written anew holds texts of other records, which may have been secret.
        if cleaned != record or record.get("type") == "truncated":
            _withhold_ids(cleaned)
        return cleaned

    def learn(self, values: Mapping[str, Any]) -> None:
        """Remember the secrets among values that are written under names, such as inputs."""
        for name, value in values.items():
            if name.casefold() in self._keys:
                self._remember(_scalars(value))
            elif isinstance(value, Mapping):
                self.learn(cast("Mapping[str, Any]", value))
            elif isinstance(value, list | tuple):
                self.learn({f"\0{index}": item for index, item in enumerate(cast("Sequence[Any]", value))})

    def _learn(self, record: Mapping[str, Any]) -> None:
        self.learn({name: value for name, value in record.items() if name in _TEXTS_BY_NAME})
        finished = record.get("finished")
        if isinstance(finished, dict):
            self._learn(cast("dict[str, Any]", finished))
        for step in record.get("steps") or ():
            self._learn(step)
        for text in _texts(record):
            for expression in self._expressions:
                self._remember(match[0] for match in expression.finditer(text))

    def _remember(self, secrets: Iterable[str]) -> None:
        known = len(self._learned)
        for secret in map(str.strip, secrets):
            spellings = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
            self._learned |= {spelling for spelling in spellings if len(spelling) >= _LEAST_LEARNED}
        if len(self._learned) != known:
            longest_first = sorted(self._learned, key=len, reverse=True)
            self._literals = re.compile("|".join(map(re.escape, longest_first)))

    def _cleaned(self, value: Any, *, by_name: bool = False) -> Any:
        """Clean a value; with `by_name`, keys of objects in it are names that may be secret."""
        if isinstance(value, str):
            return self._cleaned_text(value)
        if isinstance(value, list):
            return [self._cleaned(item, by_name=by_name) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return self._cleaned_number(value) if by_name else value
        cleaned: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            if by_name and key.casefold() in self._keys:
                cleaned[key] = MARK
            elif by_name:
                cleaned[self._cleaned_text(key)] = self._cleaned(item, by_name=True)
            elif key in _MACHINE_FIELDS or key in _ID_FIELDS:
                cleaned[key] = item
            else:
                cleaned[key] = self._cleaned(item, by_name=key in _TEXTS_BY_NAME)
        return cleaned

    def _cleaned_text(self, text: str) -> str:
        if self._literals is not None:
            text = self._literals.sub(MARK, text)
        for expression in self._expressions:
            text = expression.sub(MARK, text)
        return self._assignments.sub(rf"\g<1>{MARK}", text) if self._assignments else text

    def _cleaned_number(self, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return MARK if is_number and str(value) in self._learned else value


def checked_patterns(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Return the patterns as a list.

    Raises:
        ConfigError: see `Redactor`.
    """
    if isinstance(patterns, str | re.Pattern):
        raise ConfigError(f"redact is {patterns!r}; give a list, of key names and compiled expressions.")
    given = list(patterns)
    for pattern in given:
        if not isinstance(pattern, str | re.Pattern):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"redact holds {pattern!r}; give key names, or expressions made by re.compile.")
        if isinstance(pattern, str) and not pattern.strip():
            raise ConfigError("redact holds an empty key name; name the key whose values are secret.")
        if isinstance(pattern, re.Pattern) and (isinstance(pattern.pattern, bytes) or pattern.search("") is not None):
            raise ConfigError(f"redact holds {pattern!r}, which must match text, and not the empty one.")
    return given


def _assignments(keys: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds `key: value`, `key=value` and the JSON of it in a text; the first group is kept."""
    names = "|".join(re.escape(key) for key in sorted(keys))
    if not names:
        return None
    return re.compile(rf"""((?<![\w-])(?:{names})\\?["']?\s*[:=]\s*\\?)(?:{_VALUE})""", re.IGNORECASE)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a record, keys too, but for what only we write."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key not in _MACHINE_FIELDS and key not in _ID_FIELDS:
                yield key
                yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def _scalars(value: Any) -> Iterator[str]:
    """Yield all texts and numbers in a value, as text."""
    if isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _scalars(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _withhold_ids(record: dict[str, Any]) -> None:
    for key, value in record.items():
        if key in _ID_FIELDS:
            record[key] = None
        elif key in ("generation", "earlier_generations"):
            for generation in cast("list[dict[str, Any]]", value if isinstance(value, list) else [value]):
                _withhold_ids(generation)
                if not isinstance(generation["stop_reason"], str):
                    generation["stop_reason"] = None
