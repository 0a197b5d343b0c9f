"""What a module returns, and examples of what goes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sureact.agent.trajectory import Trajectory
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.outputs import StepOutput

TerminationReason = Literal[
    "finish", "max_iters", "context", "max_tokens", "token_budget", "time_budget", "submit", "forced_submit"
]
"""`finish`: the model called it; `max_iters`: out of steps; `context`: no room for another step; `max_tokens`: a call
did not end within its token budget; `token_budget` and `time_budget`: `TokenLimits.run` or `max_seconds` is used up. Of
`ReActV2`: `submit`, the model called it; `forced_submit`, it had to."""


@dataclass(slots=True)
class RunUsage:
    """Tokens and seconds of a run, summed over its generations."""

    num_generations: int = 0
    prompt_tokens: int = 0
    """Context tokens before each generation."""
    cached_tokens: int = 0
    """Of these, tokens reused because their keys and values were in the cache."""
    completion_tokens: int = 0
    """Tokens generated."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    tool_s: float = 0.0
    seconds: float = 0.0
    """The whole run by the clock."""

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second of decoding; 0 when nothing was timed."""
        return self.completion_tokens / self.decode_s if self.decode_s else 0.0

    def add(self, output: StepOutput) -> None:
        """Count one generation."""
        self.num_generations += 1
        self.prompt_tokens += output.usage.prompt_tokens
        self.cached_tokens += output.usage.cached_tokens
        self.completion_tokens += output.usage.completion_tokens
        self.prefill_s += output.timings.prefill_s
        self.decode_s += output.timings.decode_s


class Record(Mapping[str, Any]):
    """Named values, read and written as `record.name` or `record["name"]`.

    A name that starts with `_` is written as a key only. `record.keys` stays the method that `dict(record)` calls.
    """

    _own: ClassVar[frozenset[str]] = frozenset({"_values"})
    """Attributes that are no fields."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values: dict[str, Any] = {}
        for name, value in values.items():
            self[name] = value

    def __getattr__(self, name: str) -> Any:
        # Reached only when there is no such attribute; most fields are found without it.
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"No field {name!r}; there are {', '.join(values)}.")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own:
            super().__setattr__(name, value)
        elif _is_attribute(name):
            self[name] = value
        else:
            raise AttributeError(f"{name!r} cannot be set as an attribute; as a field write record[{name!r}] = ...")

    def __delattr__(self, name: str) -> None:
        if name not in self._values:
            raise AttributeError(f"No field {name!r}; there are {', '.join(self._values)}.")
        del self[name]

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value
        # In the instance's own dictionary it wins over the methods of Mapping, so a field may be called `items`.
        if _is_attribute(key):
            self.__dict__[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self.__dict__.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


PREDICTION_NAMES = frozenset({"trajectory", "termination_reason", "usage", "get_lm_usage", "set_lm_usage"})
"""What a prediction has beside its outputs, so that none of them can be called so."""


class Prediction(Record):
    """The outputs of a module, and how they came about."""

    _own = Record._own | {"_lm_usage", "trajectory", "termination_reason", "usage"}

    trajectory: Trajectory
    """The steps of an agent; empty for modules that take none."""
    termination_reason: TerminationReason
    usage: RunUsage

    def __init__(
        self,
        outputs: Mapping[str, Any] | None = None,
        /,
        *,
        usage: RunUsage | None = None,
        trajectory: Trajectory | None = None,
        termination_reason: TerminationReason = "finish",
        **more: Any,
    ) -> None:
        """Take the outputs, as a mapping or by name.

        Raises:
            ConfigError: an output is called like what a prediction has beside them.
        """
        super().__init__({**(outputs or {}), **more})
        self.usage = usage or RunUsage()
        self.trajectory = trajectory or Trajectory()
        self.termination_reason = termination_reason
        self._lm_usage: dict[str, dict[str, int]] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._own or key in PREDICTION_NAMES:
            raise ConfigError(f"An output cannot be called {key!r}, which a prediction has itself; rename it.")
        super().__setitem__(key, value)

    def get_lm_usage(self) -> dict[str, dict[str, int]]:
        """Return the tokens that the call of a module took which returned this, nested calls included, by model."""
        return self._lm_usage

    def set_lm_usage(self, usage: Mapping[str, Mapping[str, int]]) -> None:
        """Replace what `get_lm_usage` returns."""
        self._lm_usage = {model: dict(tokens) for model, tokens in usage.items()}


class Example(Record):
    """One case of a task: values of inputs and, where known, of outputs."""

    _own = Record._own | {"_input_names"}

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        super().__init__({**(values or {}), **more})
        self._input_names: frozenset[str] | None = values._input_names if isinstance(values, Example) else None

    def with_inputs(self, *names: str) -> Example:
        """Return a copy in which these fields are the inputs."""
        copy = Example(self._values)
        copy._input_names = frozenset(names)
        return copy

    def inputs(self) -> Example:
        """Return the input fields, ready for `module(**example.inputs())`.

        Raises:
            ConfigError: `with_inputs` has not said which they are.
        """
        return self._part(is_input=True)

    def labels(self) -> Example:
        """Return the fields that are no inputs: what a module should give.

        Raises:
            ConfigError: `with_inputs` has not said which are inputs.
        """
        return self._part(is_input=False)

    def copy(self, **changes: Any) -> Example:
        """Return a copy with some fields changed or added."""
        return self._with_values({**self._values, **changes})

    def without(self, *names: str) -> Example:
        """Return a copy without some fields."""
        return self._with_values({name: value for name, value in self._values.items() if name not in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-like values."""
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(self._values)

    def _part(self, *, is_input: bool) -> Example:
        if self._input_names is None:
            raise ConfigError("This example does not know its inputs; call example.with_inputs('question') first.")
        return self._with_values(
            {name: value for name, value in self._values.items() if (name in self._input_names) == is_input}
        )

    def _with_values(self, values: Mapping[str, Any]) -> Example:
        example = Example(values)
        example._input_names = self._input_names
        return example


def _is_attribute(name: str) -> bool:
    """Whether a field of this name is an attribute too."""
    return not name.startswith("_") and name != "keys"
