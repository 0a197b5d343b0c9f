"""From the JSON of a file to cases. Three kinds of file are told by their shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from sureact.errors import ConfigError
from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.reorder import key_reordering

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.schema.keywords import Schema

KINDS = (
    "MaskBench ({schema, tests: [{valid, data}]}), JSON-Schema-Test-Suite ([{schema, tests: [{valid, data}]}]), or "
    "raw texts ([{id, kind, schema, valid: [text], invalid: [text]}])"
)
"""The kinds of file, in words."""

_DRAFT_ADDRESSES = {
    "draft3": "http://json-schema.org/draft-03/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
DRAFT_FOLDERS = frozenset(_DRAFT_ADDRESSES)
"""Names of folders whose test-suite files are of that draft, where a schema does not say."""

_SHOWN_LEN = 100
_INVALID_TEXTS = ("invalid", "invalid_syntaxlevel", "invalid_hard")


def read_cases(
    document: Any,
    *,
    file: str,
    draft: str | None = None,
    reorder: bool = False,
    resources: Mapping[str, Schema] | None = None,
) -> list[ConformanceCase] | None:
    """Return the cases of a file, or None where it is of none of the kinds.

    Args:
        document: the file's JSON value.
        file: name for messages.
        draft: the folder of `DRAFT_FOLDERS` that the file lies in: the draft of schemas that do not name one.
        reorder: whether the keys of instances are put into the order of their schema; raw texts stay as they are.
        resources: other schemas that references may point to, by URI.

    Raises:
        ConfigError: a case lacks something or has it in another type.
    """
    try:
        match document:
            case {"schema": _, "tests": list()}:
                return [_group(document, file, "", None, reorder, resources)]
            case [{"schema": _, "tests": list()}, *_]:
                return [
                    _group(group, file, _description(group), draft, reorder, resources)
                    for group in cast("list[Any]", document)
                ]
            case [{"id": str(), "kind": str(), "schema": _, "valid": list(), "invalid": list()}, *_]:
                return [_raw_texts(case, file) for case in cast("list[Any]", document)]
            case _:
                return None
    except _DamagedCaseError as error:
        raise ConfigError(f"{file} is damaged: {error}. A file is {KINDS}.") from error


class _DamagedCaseError(ValueError):
    """A case lacks something, or has it in another type."""


def _group(
    group: Any,
    file: str,
    name: str,
    draft: str | None,
    reorder: bool,
    resources: Mapping[str, Schema] | None,
) -> ConformanceCase:
    schema = _member(group, "schema")
    if draft is not None and isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": _DRAFT_ADDRESSES[draft], **cast("dict[str, Any]", schema)}
    rewrite: Callable[[Any], Any] = key_reordering(schema, resources) if reorder else lambda data: data
    instances = tuple(
        Instance(_json_text(rewrite(_member(test, "data"))), _label(test)) for test in _list(group, "tests")
    )
    return ConformanceCase(file=file, name=name, schema=schema, instances=instances)


def _raw_texts(case: Any, file: str) -> ConformanceCase:
    kind, name = _member(case, "kind"), _member(case, "id")
    if kind not in ("json_schema", "regex", "choice"):
        raise ConfigError(f"{file}: case {name!r} is of kind {kind!r}, not json_schema, regex or choice.")
    invalid = [text for key in _INVALID_TEXTS if key in case for text in _list(case, key)]
    instances = [Instance(_text(text), True) for text in _list(case, "valid")]
    instances += [Instance(_text(text), False) for text in invalid]
    must_be_refused = case.get("expect_compile_error", False)
    return ConformanceCase(
        file=file,
        name=name,
        kind=kind,
        schema=_member(case, "schema"),
        instances=tuple(instances),
        may_be_refused=must_be_refused or case.get("compile_error_ok", False),
        must_be_refused=must_be_refused,
    )


def _json_text(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be written
        return json.dumps(data)
    return text


def _member(case: Any, key: str) -> Any:
    if not isinstance(case, dict):
        raise _DamagedCaseError(f"{_shown(case)} stands where a case should be")
    members = cast("dict[str, Any]", case)
    if key not in members:
        raise _DamagedCaseError(f"a case has no {key!r}: {_shown(members)}")
    return members[key]


def _list(case: Any, key: str) -> list[Any]:
    value = _member(case, key)
    if not isinstance(value, list):
        raise _DamagedCaseError(f"{key!r} is {_shown(value)} and must be a list")
    return cast("list[Any]", value)


def _description(group: Any) -> str:
    return str(cast("dict[str, Any]", group).get("description", "")) if isinstance(group, dict) else ""


def _label(test: Any) -> bool:
    valid = _member(test, "valid")
    if not isinstance(valid, bool):
        raise _DamagedCaseError(f"'valid' is {_shown(valid)} and must be true or false, in the test {_shown(test)}")
    return valid


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise _DamagedCaseError(f"{_shown(text)} stands where a text should be")
    return text


def _shown(value: Any) -> str:
    """Return the JSON of a value, cut short."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_LEN else text[:_SHOWN_LEN] + "..."
