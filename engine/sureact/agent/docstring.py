"""Reads what a docstring says of a function and of its parameters: Google, NumPy and reST forms."""

import inspect
import re
from dataclasses import dataclass, field
from itertools import pairwise

_PARAM_SECTIONS = r"Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_OTHER_SECTIONS = (
    r"Returns?|Yields?|Receives|Raises|Warns|Attributes|Methods|Examples?|Usage|Notes?|Hint|Tip|Important|Warnings?|Caution"
    r"|Danger|Todo|References?|See Also"
)
_IS_PARAM_SECTION = re.compile(rf"^({_PARAM_SECTIONS})\b")
_GOOGLE_SECTION = re.compile(rf"^({_PARAM_SECTIONS}|{_OTHER_SECTIONS}):\s*$")
_NUMPY_SECTION = re.compile(rf"^({_PARAM_SECTIONS}|{_OTHER_SECTIONS})\n-{{3,}}\s*$", re.M)
# A type may itself hold parentheses: `k (dict(str, int), optional): ...`.
_GOOGLE_PARAM = re.compile(r"^\*{0,2}(\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?(?:\s*:|\s+--?\s)\s*(.*)$")
_NUMPY_PARAM = re.compile(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_REST_PARAM = re.compile(r"^:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(?:\\?\*)*(\w+):\s*(.*)$")
_REST_FIELD = re.compile(r"^:\w+[^:]*:")


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says."""

    summary: str = ""
    """The text before the first section."""
    params: dict[str, str] = field(default_factory=dict[str, str])
    """Description per parameter, on one line each."""


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring; what is in no known form is part of the summary."""
    if not text:
        return Docstring()
    clean = inspect.cleandoc(text)
    if _NUMPY_SECTION.search(clean):
        return _parse_numpy(clean)
    lines = clean.split("\n")
    if any(_REST_PARAM.match(line) for line in lines):
        return _parse_rest(lines)
    return _parse_google(lines)


def _parse_google(lines: list[str]) -> Docstring:
    starts = [index for index, line in enumerate(lines) if _GOOGLE_SECTION.match(line)]
    params: dict[str, str] = {}
    for start, end in pairwise([*starts, len(lines)]):
        if _IS_PARAM_SECTION.match(lines[start]):
            params |= _indented_params(lines[start + 1 : end])
    summary = lines[: starts[0]] if starts else lines
    return Docstring(_paragraphs(summary), params)


def _indented_params(lines: list[str]) -> dict[str, str]:
    """Read `name (type): text` items until a line stands further left; deeper lines continue the item before them."""
    params: dict[str, str] = {}
    name = ""
    margin = -1
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        margin = indent if margin < 0 else margin
        if indent < margin:
            break
        match = _GOOGLE_PARAM.match(line.strip()) if indent == margin else None
        if match:
            name = match[1]
            params[name] = match[2].strip()
        elif indent == margin and line.strip().isidentifier():  # its text is on the lines below
            name = line.strip()
            params[name] = ""
        elif name:
            params[name] = f"{params[name]} {line.strip()}".strip()
    return params


def _parse_numpy(text: str) -> Docstring:
    first = _NUMPY_SECTION.search(text)
    summary = text[: first.start()] if first else text
    params: dict[str, str] = {}
    parts = _NUMPY_SECTION.split(text)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if _IS_PARAM_SECTION.match(title):
            params |= _numpy_params(body.split("\n"))
    return Docstring(_paragraphs(summary.split("\n")), params)


def _numpy_params(lines: list[str]) -> dict[str, str]:
    """Read `name : type` lines, or `a, b : type` for several, each with its text on the deeper lines below."""
    params: dict[str, str] = {}
    names: list[str] = []
    for line in filter(str.strip, lines):
        match = _NUMPY_PARAM.match(line)
        if match:
            names = [name.strip(" *") for name in match[1].split(",")]
            params |= dict.fromkeys(names, "")
        for name in names if not match else ():
            params[name] = f"{params[name]} {line.strip()}".strip()
    return params


def _parse_rest(lines: list[str]) -> Docstring:
    params: dict[str, str] = {}
    summary: list[str] = []
    name = ""  # "" in a field that is not a parameter
    in_summary = True
    for line in lines:
        match = _REST_PARAM.match(line)
        in_summary = in_summary and not _REST_FIELD.match(line)
        if match:
            name = match[1]
            params[name] = match[2].strip()
        elif _REST_FIELD.match(line):
            name = ""
        elif in_summary:
            summary.append(line)
        elif name and line.strip():
            params[name] = f"{params[name]} {line.strip()}".strip()
    return Docstring(_paragraphs(summary), params)


def _paragraphs(lines: list[str]) -> str:
    """Join the lines of each paragraph, so that a prompt is not broken where the source was."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
