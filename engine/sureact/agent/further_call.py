"""Whether a turn that holds calls wants another one.

Small models end their turn after one call, whatever was asked for: the odds of another call are far below even. But
those odds tell a request for more from a request for just that call: they rise by several nats. So they are compared
with what they are after the same calls when nothing else was asked for, which takes out what the model, the tools and
the form of the calls add to them. A model that would call again by itself is not asked further.

A client of an engine cannot do this: it needs odds at a token of its choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sureact.agent.call_opening import BARE_CALLS, OPEN_TAG
from sureact.agent.formats.qwen_tool_call import call_text
from sureact.agent.prompt_format import args_json, plain_text, template_text
from sureact.errors import PromptTooLongError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation
    from sureact.agent.language_model import LanguageModelSession
    from sureact.outputs import StepLogprobs
    from sureact.tokens.chat_template import Message, PromptText

AFTER_FIRST_CALL = 1.5
"""Nats by which the odds must rise for a second call. Questions of the leaderboard that are not among the evaluated
ones, 0.5B and 1.5B: at most 1.4 where one call was right (92 of 92), more than 1.5 where several were (27 of 34)."""
AFTER_MORE_CALLS = 3.0
"""The same for later calls, after which the odds scatter more."""
BETWEEN_CALLS = "\n"
"""What stands between two calls. Before it the model cannot be asked: it nearly always comes, whatever follows."""
_NUM_LOGPROBS = 20
_LEAST_SHARE = 1e-30
_OPENINGS = (*BARE_CALLS, "```json\n", "``", "[{", "{", "[")
"""How small models begin another call, beside the tag."""

Call = tuple[str, Mapping[str, Any]]
"""Name and arguments."""


class FurtherCall:
    """Asks a model, after the calls of its turn, whether another one is due."""

    def __init__(
        self,
        new_session: Callable[[], LanguageModelSession],
        render: Callable[[Sequence[Message]], PromptText],
        messages: Sequence[Message],
    ) -> None:
        """Take what the turn answers.

        Args:
            new_session: opens an empty session on the model.
            render: renders messages as those of the turn were, with the same tools.
            messages: of the turn's prompt; what the system says in them stays in the comparison.
        """
        self._new_session = new_session
        self._render = render
        self._system: list[Message] = [message for message in messages if message["role"] == "system"]
        self._opening_ids: frozenset[int] = frozenset()

    def is_due(
        self, session: LanguageModelSession, calls: Sequence[Call], *, cancellation: Cancellation | None = None
    ) -> bool:
        """Judge whether the turn goes on with another call. The session stays as it is.

        Args:
            session: ends with the last call and `BETWEEN_CALLS`.
            calls: those of the turn, at least one.
            cancellation: closes what is opened here when it is cancelled; `session` is its owner's to close.
        """
        own = self._log_odds(session)
        if own > 0:
            return True
        threshold = AFTER_FIRST_CALL if len(calls) == 1 else AFTER_MORE_CALLS
        try:
            return own - self._log_odds_without_cause(calls, cancellation) > threshold
        except PromptTooLongError:  # nothing to compare with
            return False

    def _log_odds_without_cause(self, calls: Sequence[Call], cancellation: Cancellation | None) -> float:
        """Return the odds after the same calls, when they are what was asked for."""
        session = self._new_session()
        try:
            if cancellation is not None:
                cancellation.add_callback(session.close)
            session.append(self._render([*self._system, {"role": "user", "content": request_for(calls)}]))
            session.append(calls_text(calls))
            return self._log_odds(session)
        finally:
            session.close()

    def _log_odds(self, session: LanguageModelSession) -> float:
        if not self._opening_ids:
            self._opening_ids = _first_ids(session)
        num_tokens = len(session.token_ids)
        output = session.generate(SamplingParams(max_tokens=1, logprobs=_NUM_LOGPROBS))
        session.truncate(num_tokens)
        assert output.logprobs, "they were asked for"
        return log_odds(output.logprobs[0], self._opening_ids)


def log_odds(logprobs: StepLogprobs, ids: frozenset[int]) -> float:
    """Return the natural logarithm of the odds of some tokens; an upper bound of it where none of them is told."""
    shares = {entry.token_id: math.exp(entry.logprob) for entry in logprobs.top}
    share = sum(share for token_id, share in shares.items() if token_id in ids)
    if not ids & shares.keys():
        share = min(*shares.values(), 1 - sum(shares.values()))
    # Rounding may leave nothing to one side.
    return math.log(max(share, _LEAST_SHARE)) - math.log(max(1 - share, _LEAST_SHARE))


def request_for(calls: Sequence[Call]) -> str:
    """Return a request that asks for these calls and nothing else."""
    return "Call " + ", then call ".join(f"`{name}` with {args_json(args)}" for name, args in calls) + "."


def calls_text(calls: Sequence[Call]) -> PromptText:
    """Return calls as they stand in a turn, each followed by `BETWEEN_CALLS`."""
    text = plain_text("")
    for name, args in calls:
        text += call_text(name, args_json(args)) + plain_text(BETWEEN_CALLS)
    return text


def _first_ids(session: LanguageModelSession) -> frozenset[int]:
    """Return the first id of each way to open a call. The session stays as it is."""
    num_tokens = len(session.token_ids)
    ids: set[int] = set()
    for opening in (template_text(OPEN_TAG), plain_text(OPEN_TAG), *map(plain_text, _OPENINGS)):
        session.append(opening)
        ids.add(session.token_ids[num_tokens])
        session.truncate(num_tokens)
    return frozenset(ids)
