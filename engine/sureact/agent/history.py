"""What was said and done in a conversation with an agent, as plain JSON values, to be gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, cast

from sureact.agent.prediction import Prediction, RunUsage
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.agent.trajectory import Trajectory

ForcedBy = Literal["max_iters", "context", "no_call", "max_tokens", "token_budget", "time_budget", "repeats"]
"""Why `submit` was forced: out of turns; no room for another turn; the model ended a turn without a call; a call did
not end within its token budget; `TokenLimits.run` or `max_seconds` is used up; or two turns one after the other had no
call that was not made before."""

HISTORY_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """One call of a turn, and what it gave."""

    id: str
    """`call_{turn}_{position}`, both from 0; no two calls of a conversation share one."""
    tool_name: str
    """Empty where no call could be decoded."""
    tool_args: dict[str, Any]
    """Arguments as the model wrote them, as parsed JSON."""
    observation: str
    """What the model reads."""
    is_error: bool = False
    is_repeat: bool = False
    """Whether an earlier identical call was repeated to the model instead of running the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of the model."""

    index: int
    """Position in the conversation, from 0."""
    inputs: dict[str, Any] | None
    """What the user said before it, as JSON values; None where the turn goes on after observations."""
    thought: str
    thinking: str = ""
    """What a thinking model wrote between `<think>` and `</think>`."""
    calls: tuple[TurnCall, ...]
    """In order; a turn that gave the outputs has one, of `submit`."""
    outputs: dict[str, Any] | None = None
    """The outputs as JSON values, if they were submitted in this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A conversation so far. Unchangeable: going on gives a longer one, so one may be gone on with several times."""

    turns: tuple[Turn, ...] = ()
    token_ids: tuple[int, ...] = field(default=(), repr=False)
    """The whole context, so that nothing need be rendered again; empty for turns that were put together by hand."""
    origin: str = ""
    """Digest of the model, the instructions and the tools that `token_ids` belong to."""

    def __post_init__(self) -> None:
        """Validate."""
        for turn in self.turns:
            if not turn.calls:
                raise ConfigError(f"Turn {turn.index} of the history has no call; each has one, the last of `submit`.")

    def __len__(self) -> int:
        """Turns."""
        return len(self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return what `json.dumps` takes and `from_dict` reads."""
        return {"version": HISTORY_VERSION, **asdict(self), "token_ids": list(self.token_ids)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> History:
        """Read what `to_dict` gave, also after JSON.

        Raises:
            ConfigError: it is something else.
        """
        given = cast("object", values)
        if not isinstance(given, Mapping) or "turns" not in values:
            raise ConfigError(f"A history is a History or what its to_dict() gave, not {_shown(values)}.")
        version = values.get("version", HISTORY_VERSION)
        if version != HISTORY_VERSION:
            raise ConfigError(f"The history is of version {version!r}; this sureact reads version {HISTORY_VERSION}.")
        try:
            turns = tuple(_turn(turn, index) for index, turn in enumerate(values["turns"]))
            token_ids = tuple(_token_id(token_id) for token_id in values.get("token_ids", ()))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ConfigError(f"The history is damaged: {type(error).__name__} {error}. Save it again.") from error
        return cls(turns=turns, token_ids=token_ids, origin=str(values.get("origin", "")))


class HistoryPrediction(Prediction):
    """The outputs of a conversation's last message, and the conversation."""

    _own = Prediction._own | {"history", "forced_by"}

    history: History
    """The conversation with this run, to be gone on with."""
    forced_by: ForcedBy | None
    """Why the model had to submit; None where it chose to."""

    def __init__(
        self,
        outputs: Mapping[str, Any],
        history: History,
        forced_by: ForcedBy | None,
        usage: RunUsage,
        trajectory: Trajectory,
    ) -> None:
        """Take the outputs and how they came about; the reason is told by `forced_by`."""
        reason = "submit" if forced_by is None else "forced_submit"
        super().__init__(outputs, usage=usage, trajectory=trajectory, termination_reason=reason)
        self.history = history
        self.forced_by = forced_by


def checked_history(given: object) -> History:
    """Return a history that was given as such, as its dictionary, or as None for an empty one.

    Raises:
        ConfigError: it is something else.
    """
    if given is None:
        return History()
    return given if isinstance(given, History) else History.from_dict(cast("Mapping[str, Any]", given))


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them; of what JSON has not, its text."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(dict(values), fallback=str)


def _turn(values: Mapping[str, Any], index: int) -> Turn:
    known: dict[str, Any] = {**_known(values, Turn), "calls": tuple(_call(call) for call in values["calls"])}
    turn = Turn(**known)
    if turn.index != index:
        raise ValueError(f"turn {index} says that it is turn {turn.index!r}")
    if not isinstance(turn.thought, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the thought of turn {index} is no text")
    if index == 0 and turn.inputs is None:
        raise ValueError("the first turn has no inputs")
    for name, value in (("inputs", turn.inputs), ("outputs", turn.outputs)):
        if value is not None and not isinstance(value, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name} of turn {index} are no object")
    return turn


def _call(values: Mapping[str, Any]) -> TurnCall:
    call = TurnCall(**_known(values, TurnCall))
    for name in ("id", "tool_name", "observation"):
        if not isinstance(getattr(call, name), str):
            raise TypeError(f"{name} of a call is no text")
    if not isinstance(call.tool_args, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tool_args of {call.id} are no object")
    return call


def _known(values: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return what this version knows; what later ones may add is left out."""
    known = {item.name for item in cast("Iterable[Any]", fields(kind))}
    return {name: value for name, value in values.items() if name in known}


def _token_id(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no token id")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
