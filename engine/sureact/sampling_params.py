"""How one request picks its tokens. Knows nothing of models."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Literal

from sureact.errors import ConfigError

Stop = str | int | Sequence[str | int | Sequence[int]]
"""One stop, or several: a text, a token id, or a sequence of token ids."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_STOP_FORMS = "a text, a token id, a sequence of token ids, or several of these"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunawayLimits:
    """What is taken for text that runs on, as greedy small models write it; None for a limit turns it off.

    In text under a constraint a value that runs on is ended as soon as the constraint allows, and the rest is written
    as usual; free text ends there, as if `max_tokens` had. Each is told in `StepOutput.early_ends`. A look is taken
    every 8 tokens.

    Raises:
        ConfigError: a limit is below 1.
    """

    repeated_tokens: int | None = 96
    """Tokens in a row that are one unit, of up to 64 tokens, at least 6 times over. 96 are more than a line of 80
    characters spelled one by one, and more than any number needs."""
    string_characters: int | None = 4_000
    """Characters of a JSON string as it is written, or the largest length that the schema itself names. About twice
    what 512 tokens hold, so that it never binds before the usual budget of a call."""
    number_characters: int | None = 40
    """Characters of a JSON number. A float64 takes up to 24, an integer of 128 bits 39."""
    array_items: int | None = 500
    """Items of a JSON array, or the largest number of items that the schema itself names."""

    def __post_init__(self) -> None:
        """Validate."""
        for name in self.__slots__:
            value = getattr(self, name)
            is_limit = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            _require(value is None or is_limit, f"RunawayLimits.{name}", value, "a whole number of at least 1, or None")


_TYPES: tuple[tuple[type | UnionType, str, tuple[str, ...]], ...] = (
    (int, "a whole number", ("max_tokens", "min_tokens", "top_k", "n")),
    (int | None, "a whole number, or None", ("seed", "logprobs")),
    (int | float, "a number", ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty")),
    (int | float | None, "a number, or None", ("repetition_penalty",)),
    (bool, "True or False", ("include_stop", "ignore_eos")),
)
"""Of which type each parameter is, and how that is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request picks its tokens; greedy unless told otherwise.

    Raises:
        ConfigError: a value is out of its range, or two values contradict each other.
    """

    max_tokens: int = 512
    """Most tokens to generate, at least 1."""
    min_tokens: int = 0
    """Tokens before which neither a stop nor an end-of-sequence token may end the text."""
    stop: Stop = ()
    """Where to stop: texts, token ids, or sequences of token ids (the `stop_words_ids` of the Qwen tutorial)."""
    include_stop: bool = False
    """Whether the stop that ended the text stays in it."""
    ignore_eos: bool = False
    """Whether end-of-sequence tokens are generated like any other."""
    temperature: float = 0.0
    """0 is greedy; above 0 logits are divided by it and a token is drawn."""
    top_k: int = 0
    """Draw among the `top_k` likeliest tokens; 0 is all."""
    top_p: float = 1.0
    """Draw among the likeliest tokens whose probabilities add up to `top_p`, in (0, 1]."""
    min_p: float = 0.0
    """Draw among tokens at least `min_p` times as likely as the likeliest, in [0, 1]."""
    repetition_penalty: float | None = None
    """Divides the positive logits of tokens seen in prompt or output, multiplies the negative ones, as transformers
    does; 1 is off. None takes the checkpoint's own value."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of each token already generated, in [-2, 2]."""
    frequency_penalty: float = 0.0
    """Subtracted once per earlier occurrence in the generated text, in [-2, 2]."""
    seed: int | None = None
    """Seed of the draws; None draws a fresh one."""
    n: int = 1
    """Completions per prompt."""
    logprobs: int | None = None
    """Log-probabilities to return per token: of the picked token and of this many likeliest, 0 to 20. They are taken
    after penalties and before the constraint's mask and the temperature."""
    on_max_tokens: Literal["cut", "close"] = "cut"
    """What the budget does to a text under a constraint: `cut` ends it where it stands, unfinished, with the reason
    `length` and no value; `close` ends it early enough to be complete, if a way is found that takes no more tokens."""
    runaway: RunawayLimits | None = None
    """What ends text that runs on; None for nothing."""

    def __post_init__(self) -> None:
        """Validate, and freeze `stop` into a tuple."""
        self._require_types()
        _require(self.max_tokens >= 1, "max_tokens", self.max_tokens, "at least 1")
        _require(0 <= self.min_tokens <= self.max_tokens, "min_tokens", self.min_tokens, "between 0 and max_tokens")
        _require(
            math.isfinite(self.temperature) and self.temperature >= 0, "temperature", self.temperature, "0 or more"
        )
        _require(self.top_k >= 0, "top_k", self.top_k, "0 (all) or more")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1")
        _require(-2 <= self.presence_penalty <= 2, "presence_penalty", self.presence_penalty, "between -2 and 2")
        _require(-2 <= self.frequency_penalty <= 2, "frequency_penalty", self.frequency_penalty, "between -2 and 2")
        penalty = self.repetition_penalty
        _require(penalty is None or penalty > 0, "repetition_penalty", penalty, "above 0, or None")
        _require(self.n >= 1, "n", self.n, "at least 1")
        _require(self.n == 1 or self.temperature > 0, "n", self.n, "1 when temperature is 0: greedy has one answer")
        _require(self.logprobs is None or 0 <= self.logprobs <= 20, "logprobs", self.logprobs, "None or 0 to 20")
        _require(self.on_max_tokens in ("cut", "close"), "on_max_tokens", self.on_max_tokens, "'cut' or 'close'")
        _require(
            self.runaway is None or isinstance(self.runaway, RunawayLimits),  # pyright: ignore[reportUnnecessaryIsInstance]
            "runaway",
            self.runaway,
            "a RunawayLimits, or None",
        )
        object.__setattr__(self, "stop", _frozen_stops(self.stop))

    def _require_types(self) -> None:
        for kind, allowed, names in _TYPES:
            for name in names:
                value = getattr(self, name)
                is_number = not isinstance(value, bool)
                _require(isinstance(value, kind) and (is_number or kind is bool), name, value, allowed)

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken at each step."""
        return self.temperature == 0

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The stops given as text."""
        return tuple(item for item in self._stop_items if isinstance(item, str))

    @property
    def stop_token_ids(self) -> tuple[tuple[int, ...], ...]:
        """The stops given as token ids, each as a sequence."""
        return tuple(item for item in self._stop_items if not isinstance(item, str))

    @property
    def _stop_items(self) -> tuple[str | tuple[int, ...], ...]:
        return self.stop  # pyright: ignore[reportReturnType]  __post_init__ froze it into this type


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value!r}; it must be {allowed}.")


def has_surrogate(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, which no tokenizer and no file can spell."""
    return _SURROGATE.search(text) is not None


def _frozen_stops(stop: Stop) -> tuple[str | tuple[int, ...], ...]:
    """Bring every way of writing stops into one: texts, and tuples of token ids."""
    _require(_is_stop(stop) or isinstance(stop, Sequence), "stop", stop, _STOP_FORMS)
    items = (stop,) if isinstance(stop, (str, int)) else tuple(stop)
    frozen: list[str | tuple[int, ...]] = []
    for item in items:
        _require(_is_stop(item), "stop", item, _STOP_FORMS)
        if isinstance(item, str):
            _require(not has_surrogate(item), "stop", item, "text that UTF-8 can spell, without lone surrogates")
            frozen.append(item)
        else:
            frozen.append((item,) if isinstance(item, int) else tuple(item))
        _require(len(frozen[-1]) > 0, "stop", item, "texts or token-id sequences that are not empty")
    return tuple(frozen)


def _is_stop(item: object) -> bool:
    """Whether something is a text, a token id or a sequence of token ids."""
    ids = item if isinstance(item, Sequence) and not isinstance(item, str) else (item,)
    return isinstance(item, str) or all(isinstance(i, int) and not isinstance(i, bool) for i in ids)
