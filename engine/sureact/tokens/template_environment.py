"""The Jinja dialect that chat templates are written in. Templates come with checkpoints, so they run in a sandbox."""

import json
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from sureact.tokens.data_marks import DataMarks

MARKS_VARIABLE = "data_marks"
"""Template variable with the `DataMarks` of a render whose data is marked."""


def template_environment() -> ImmutableSandboxedEnvironment:
    """Make an environment that reads what Hugging Face chat templates use.

    Source: the environment of `apply_chat_template` in transformers, for which templates are written.
    """
    # Any: jinja2 annotates its tables with the types of the entries it ships.
    environment: Any = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        # Jinja's own `dict` and `namespace` hand a template the Python types, through which a sandbox can be left.
        "dict": _make_dict,
        "namespace": _SafeNamespace,
    }
    return environment


@pass_context
def _to_json(
    context: Context,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write a value as JSON, without the HTML escapes of Jinja's own filter; what comes out is data."""
    marks: DataMarks | None = context.get(MARKS_VARIABLE)
    plain = value if marks is None else marks.reveal(value)
    text = json.dumps(plain, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return text if marks is None else marks.hide_text(text)


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}` marks, for training, what an assistant wrote; here it is its content."""

    tags = {"generation"}  # noqa: RUF012  as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _SafeNamespace(Namespace):
    """Jinja's namespace without private names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        attributes = dict(*args, **kwargs)
        for name in attributes:
            _refuse_private(name)
        super().__init__(attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"the namespace attribute {name!r} is private")


def _make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
