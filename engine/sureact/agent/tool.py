"""A function that the model may call: its name, what it is for, and the JSON schema of its arguments."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from sureact.agent.call_policy import TRANSIENT, CallPolicy
from sureact.agent.isolated_tool import IsolatedTool
from sureact.agent.tool_attempt import Attempt, Render, ToolAttempt
from sureact.agent.tool_callable import callable_docstring
from sureact.agent.tool_schema import checked_name, described_arguments, field_defaults, given_schema
from sureact.agent.tool_state import RunInstances, ToolMethod, ToolState
from sureact.errors import ToolDefinitionError, ToolExecutionError
from sureact.option_values import require_bool, require_text

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from sureact.agent.cancellation import Cancellation
    from sureact.constraints.json_schema import JsonSchemaConstraint


class ForeignTool(Protocol):
    """A tool of another project, as LangChain shapes it."""

    name: str
    description: str


ToolLike = Callable[..., object] | Mapping[str, Any] | ForeignTool
"""What a list of tools may hold: a `Tool`, a function, a callable object, a class, a tool of dspy or LangChain, or a
dictionary of the Qwen tutorial."""

FINISH = "finish"
"""Name of the built-in tool that ends a run."""


class Tool:
    """A function with the schema of its arguments.

    What is not given is read from the function: its name, its docstring (Google, NumPy or reST) and its annotations,
    with `pydantic.Field` in an `Annotated` or as the default. Of a `functools.partial` it is read from what that wraps,
    and what is bound is not offered to the model. A function may be async, which runs on an event loop of its own
    thread, so that it can be called from anywhere. It may change its arguments: each call has its own.

    A `datetime` or `time` that the model writes always has a time zone, as the JSON formats ask: compare it with
    `datetime.now(datetime.UTC)`. One of `pydantic.NaiveDatetime` has none.

    Where an agent is called, its functions are called too: on that thread. With a time limit, in `acall`, in `batch`
    and in a server each call has a thread of its own. On Linux that steps back for all others once the call has
    computed for a while, and so does what it starts from then on.

    A class with `__call__` is a tool with state: each run of an agent makes an instance of its own when the tool is
    first called; if it is a context manager, it is entered then and left when the run ends. `Tool.methods_of` makes
    tools of a class's methods, which share the instance.
    """

    def __init__(
        self,
        func: Callable[..., object],
        name: str | None = None,
        desc: str | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
        repeatable: bool = False,
        idempotent: bool = False,
        timeout_s: float | None = None,
        retries: int = 0,
        retry_on: tuple[type[BaseException], ...] = TRANSIENT,
        backoff_s: float = 0.5,
        isolate: bool = False,
    ) -> None:
        """Describe a function.

        Args:
            func: called with keyword arguments.
            name: a letter or `_`, then letters, digits, `_`, `.` or `-`; at most 64 characters.
            desc: what the tool is for, as the model reads it.
            args: JSON schema per argument, or one schema of type `object` for all of them; annotations are not read
                then, and values are passed as they were parsed.
            title: name for people; None for `name`.
            repeatable: whether the same call may give another result later, so that an agent may repeat it.
            idempotent: whether a call may run twice with the effect of once, so that a run that is resumed may run it
                again without asking.
            timeout_s: most seconds of a call. A function then runs on a thread of its own, since Python cannot end it:
                one that hangs is left behind. An async function is cancelled.
            retries: how often a call is tried again after an error of `retry_on`, 0 to 20.
            retry_on: exception classes; by default `ConnectionError` and `TimeoutError`. A call that was given up after
                `timeout_s` may have done its work, so it is tried again only if `ToolTimeoutError` is named.
            backoff_s: seconds before the second attempt; twice as many before each further one, at most 30.
            isolate: run the function in a process of its own, at the lowest priority: the engine goes first, and a
                function that hangs is ended, with the processes that it started. It must be one that another process
                can import; calls give the text that a model reads. `timeout_s` does not count the process's start.

        Raises:
            ToolDefinitionError: the name is not allowed, or the arguments cannot be described.
            ConfigError: another option is not allowed.
        """
        _check_options({"repeatable": repeatable, "idempotent": idempotent, "isolate": isolate}, desc, title)
        if inspect.isclass(func):
            func = _call_method(func)
        self.func = func
        self.policy = CallPolicy(timeout_s=timeout_s, retries=retries, retry_on=retry_on, backoff_s=backoff_s)
        described = func.function if isinstance(func, ToolMethod) else func
        self.name = checked_name(func, name)
        docstring = callable_docstring(described)
        self.desc = docstring.summary if desc is None else desc
        self.title = self.name if title is None else title
        self.repeatable = repeatable
        self.idempotent = idempotent
        # What reads a function, such as a filter of outlines' templates, reads a tool.
        self.__name__, self.__doc__, self.__wrapped__ = self.name, self.desc, described
        has_self = isinstance(func, ToolMethod) and func.has_self
        self._object = (
            None if args is not None else described_arguments(described, self.name, docstring, has_self=has_self)
        )
        self.parameters: dict[str, Any] = self._object.schema if self._object else given_schema(args, self.name)
        """JSON schema of the arguments: an object."""
        self._field_defaults = {} if self._object else field_defaults(described)
        self._attempt: Attempt = ToolAttempt(func, described, self._converted)
        if isolate:
            self._attempt = IsolatedTool(func, self.name, None if self._object else self.parameters)

    @classmethod
    def methods_of(cls, owner: type, make: Callable[[], object] | None = None, **options: Any) -> list[Tool]:
        """Make a tool of each public method of a class; each run of an agent makes one instance for all of them.

        An instance that is a context manager is entered when it is made, and left when the run ends.

        Args:
            owner: the class.
            make: gives an instance; None calls the class without arguments.
            options: further options of each `Tool`, such as `timeout_s`.

        Raises:
            ToolDefinitionError: the class has no public method, needs arguments, or a method cannot be described.
        """
        if not inspect.isclass(owner):
            raise ToolDefinitionError(f"methods_of takes a class, not {owner!r}.")
        state = ToolState(owner, make)
        names = state.method_names()
        if not names:
            raise ToolDefinitionError(f"The class {owner.__name__} has no public method that could be a tool.")
        return [cls(ToolMethod(state, name), **options) for name in names]

    @classmethod
    def from_mcp(cls, session: Any, tool: Any, **options: Any) -> Tool:
        """Make a tool of what an MCP session lists; see `tool_sources.from_mcp`."""
        from sureact.agent.tool_sources import from_mcp

        return from_mcp(session, tool, **options)

    @classmethod
    def from_langchain(cls, tool: Any, **options: Any) -> Tool:
        """Make a tool of one of LangChain; see `tool_sources.from_langchain`."""
        from sureact.agent.tool_sources import from_langchain

        return from_langchain(tool, **options)

    @classmethod
    def from_dspy(cls, tool: Any, **options: Any) -> Tool:
        """Make a tool of a `dspy.Tool`; see `tool_sources.from_dspy`."""
        from sureact.agent.tool_sources import from_dspy

        return from_dspy(tool, **options)

    @classmethod
    def from_qwen(
        cls, description: Mapping[str, Any], func: Callable[..., object] | None = None, **options: Any
    ) -> Tool:
        """Make a tool of a dictionary of the Qwen tutorial; see `tool_sources.from_qwen`."""
        from sureact.agent.tool_sources import from_qwen

        return from_qwen(description, func, **options)

    @property
    def args(self) -> dict[str, Any]:
        """JSON schema per argument."""
        return self.parameters.get("properties", {})

    @property
    def state(self) -> ToolState | None:
        """What each run makes its own instance of; None for a function."""
        return self.func.state if isinstance(self.func, ToolMethod) else None

    @property
    def is_isolated(self) -> bool:
        """Whether the function runs in a process of its own."""
        return isinstance(self._attempt, IsolatedTool)

    def bound_to(self, instances: RunInstances) -> Tool:
        """Return the tool as it is in one run: with the run's instance, if it is a method."""
        if not isinstance(self.func, ToolMethod) or not isinstance(self._attempt, ToolAttempt):
            return self
        _ = self._args_constraint  # compiled once, for the copies too
        bound = copy.copy(self)
        bound._attempt = self._attempt.of(partial(self.func.call_in, instances), bound._converted)
        return bound

    def with_timeout(self, timeout_s: float) -> Tool:
        """Return the tool with this `timeout_s`, if it has none of its own.

        Raises:
            ConfigError: it is no number of seconds above 0.
        """
        if self.policy.timeout_s is not None:
            return self
        limited = copy.copy(self)
        limited.policy = replace(self.policy, timeout_s=timeout_s)
        return limited

    def check(self, args: Mapping[str, object]) -> None:
        """Judge parsed arguments by the schema.

        Raises:
            ToolExecutionError: an argument is missing, unknown or not of its schema.
        """
        errors = [
            f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message}"
            for error in self._args_constraint.faults(dict(args))
        ]
        if errors:
            raise ToolExecutionError(f"{self.name} refuses {dict(args)!r}: {'; '.join(errors)}")

    @cached_property
    def _args_constraint(self) -> JsonSchemaConstraint:
        """What judges a decoded call also judges one that the user makes, so the two never differ."""
        from sureact.constraints.json_schema import json_schema

        return json_schema(self.parameters, additional_properties="closed")

    def __call__(self, **args: object) -> object:
        """Validate the arguments, convert them to the function's types, and call it, again where it may be retried.

        Raises:
            ToolExecutionError: the arguments are refused. What the function raises passes through.
            ToolTimeoutError: the function gave no result within `timeout_s`.
        """
        self.check(args)
        return self.run(args)

    def run(
        self, args: Mapping[str, object], render: Render | None = None, cancellation: Cancellation | None = None
    ) -> Any:
        """Call the function with arguments that `check` passes.

        Args:
            args: parsed JSON.
            render: turns the result into what is returned, within `timeout_s` and on the thread of the function.
            cancellation: gives the call up. The function runs on a thread of its own then.

        Raises:
            ToolExecutionError: a converter of the function's types refuses the arguments.
            ToolTimeoutError: the function gave no result within `timeout_s`.
            RequestAbortedError: the call was cancelled.
        """
        timeout_s = self.policy.timeout_s
        return self.policy.run(lambda: self._attempt(args, render, timeout_s, cancellation), cancellation)

    def _converted(self, args: Mapping[str, object]) -> dict[str, Any]:
        # Each attempt has its own: the arguments that are recorded and compared are those that the model wrote.
        own = {name: _copied(value) for name, value in args.items()}
        try:
            if self._object is not None:
                return self._object.convert(own)
            left_out = {name: info for name, info in self._field_defaults.items() if name not in own}
            return own | {name: _default_of(name, info, own) for name, info in left_out.items()}
        except ValueError as error:
            raise ToolExecutionError(f"{self.name} refuses {dict(args)!r}: {error}") from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Tool:
        """Return the tool itself: it holds nothing of a run, and its processes and counts are those of its function."""
        return self

    def __repr__(self) -> str:
        return f"Tool({self.name}: {', '.join(self.args)})"


def tools_by_name(tools: Iterable[ToolLike]) -> dict[str, Tool]:
    """Return the tools under their names, whatever else is one made into a tool.

    Raises:
        ToolDefinitionError: it is no list, two tools have one name, or one is called `finish`, which the loop defines.
    """
    from sureact.agent.tool_sources import tools_of

    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(f"tools is {tools!r}; it must be a list of tools, such as [my_function], or [].")
    named: dict[str, Tool] = {}
    for given in tools:
        for tool in tools_of(given):
            if tool.name == FINISH:
                raise ToolDefinitionError(f"A tool is called {FINISH!r}, which ends a run; give yours another name.")
            if tool.name in named:
                raise ToolDefinitionError(f"Two tools are called {tool.name!r}; rename one with Tool(func, name=...).")
            named[tool.name] = tool
    return named


def _copied(value: object) -> object:
    """Copy JSON. What is none stays as it is: an object that the user gave `__call__` is the user's."""
    if isinstance(value, dict):
        given = cast("dict[object, object]", value)
        return dict(zip(given, map(_copied, given.values()), strict=True))
    if isinstance(value, list):
        return list(map(_copied, cast("list[object]", value)))
    return value


def _default_of(name: str, info: FieldInfo, given: dict[str, Any]) -> object:
    if info.is_required():
        raise ValueError(f"{name!r} is missing, and its Field has no default")
    return info.get_default(call_default_factory=True, validated_data=given)


def _check_options(switches: Mapping[str, object], desc: object, title: object) -> None:
    for name, value in switches.items():
        require_bool(name, value)
    require_text("desc", desc)
    require_text("title", title)


def _call_method(cls: type) -> ToolMethod:
    if not any("__call__" in vars(base) for base in cls.__mro__):
        raise ToolDefinitionError(
            f"Tool {cls.__name__!r} is a class without __call__. Tool.methods_of makes tools of its methods; a "
            "function that makes an instance is a tool by itself."
        )
    return ToolMethod(ToolState(cls), "__call__")
