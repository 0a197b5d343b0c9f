"""The session of a conversation with an agent: it only grows, by thoughts, calls, observations and messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sureact.agent.agent_context import AgentContext, Call, Thought
from sureact.agent.events import Event
from sureact.agent.formats.qwen_tool_turns import SUBMIT
from sureact.agent.prompt_format import think_closed
from sureact.agent.token_limits import TokenLimits
from sureact.errors import ContextWindowExceededError, OutputTruncatedError

if TYPE_CHECKING:
    from sureact.agent.call_rules import CallChoice
    from sureact.agent.formats.qwen_tool_turns import QwenToolTurnsFormat
    from sureact.agent.history import History
    from sureact.agent.language_model import LanguageModel

_logger = logging.getLogger(__name__)

# What the format writes around a thought, a call and an observation, in tokens.
_FORMAT_TOKENS_PER_CALL = 64
# What stands between two calls, and the token that tells whether there is another one.
_MORE_TOKENS = 4


class TurnSession(AgentContext["QwenToolTurnsFormat"]):
    """A session that goes on with a conversation, and each thing that is decided on it."""

    def __init__(
        self,
        lm: LanguageModel,
        turns_format: QwenToolTurnsFormat,
        history: History,
        inputs: Mapping[str, Any],
        limits: TokenLimits,
        emit: Callable[[Event], None],
        *,
        origin: str,
    ) -> None:
        """Open a session with the conversation so far and what the user says now.

        Args:
            lm: the model.
            turns_format: how turns are written down.
            history: the conversation; its token ids are taken over if they are of `origin`, else it is rendered anew.
            inputs: what the user says.
            limits: most tokens per part.
            emit: told of each piece of text.
            origin: digest of the model, the instructions and the tools.

        Raises:
            ContextWindowExceededError: it does not fit, or leaves no room for a turn and the outputs.
        """
        super().__init__(lm, turns_format, limits, emit)
        self._turn_start = 0
        try:
            self.opening_text = self._open(history, inputs, origin)
            """What stands before the first thought; of ids that were taken over, their number."""
            self._require_room()
        except BaseException:
            self._session.close()
            raise

    def _open(self, history: History, inputs: Mapping[str, Any], origin: str) -> str:
        if not history.turns:
            opening = self._format.opening(inputs)
            self._session.append(opening)
            return opening.text
        message = self._format.observations_of(history.turns[-1]) + self._format.message(inputs)
        if history.token_ids and history.origin == origin:
            self._session.append(history.token_ids)
            before = f"[{len(history.token_ids):,} tokens of the conversation so far]"
            self.is_opening_told = False
        else:
            if history.token_ids:
                _logger.warning(
                    "The conversation was had with another model, or with other instructions or tools, so its %d turns "
                    "are written anew.",
                    len(history.turns),
                )
            rendered = self._format.turns(history.turns)
            self._session.append(rendered)
            before = rendered.text
        self._session.append(message)
        return before + message.text

    def observation_room(self, num_calls: int) -> int:
        """Most tokens of each observation of a turn: in a full context, what is left beside the outputs."""
        left = self._room_left(0, num_observations=0) // num_calls - _FORMAT_TOKENS_PER_CALL
        return max(1, min(self.observation_limit, left))

    def has_room_for_turn(self) -> bool:
        """Whether a turn of one call fits, whatever it holds, and a call of `submit` after it."""
        return self._room_left(self._limits.thought + self._limits.call, num_observations=1) >= 0

    def begin_turn(self) -> None:
        """Mark where the turn begins."""
        self._turn_start = len(self._session.token_ids)

    def drop_turn(self) -> None:
        """Cut a turn without observations off the context."""
        self._session.truncate(self._turn_start)

    def think(self, step_index: int) -> tuple[Thought, bool]:
        """Decode a thought; return it, and whether the model ended its turn with it, without a call."""
        self.generations = []
        thought, last = self._write_thought(step_index, is_open=False)
        # A stop, the start of a call among them, is a text or ids; the end of a turn is neither.
        has_ended = last.finish_reason == "stop" and not isinstance(last.stop_reason, str | tuple)
        return thought, has_ended

    def decide_call(self, step_index: int, call_id: str, choice: CallChoice) -> Call | None:
        """Decode the first call of a turn; None when `TokenLimits.call` ended it early.

        A call that the choice masks is taken back, and another tool is decided on.
        """
        self.generations = []
        return self._choose_call(choice, step_index, call_id)

    def decide_another(self, step_index: int, call_id: str, num_calls: int) -> Call | None:
        """Let the model end the turn or begin another call, and decode that; None when there is none.

        A call that `TokenLimits.call` ended early, or that found no way on, is cut off again, and there is none either.

        Args:
            step_index: step of the other call.
            call_id: its id.
            num_calls: calls of the turn so far.
        """
        if not self.budget.has_tokens(_MORE_TOKENS + self._limits.call) or self.budget.is_out_of_time:
            return None
        constraint = self._format.later_call_constraint
        if constraint is None or self._room_left(_MORE_TOKENS + self._limits.call, num_calls + 1) < 0:
            return None
        self.generations = []
        end_of_call = len(self._session.token_ids)
        self._append(self._format.between_calls)
        after_newline = len(self._session.token_ids)
        peeked = self._generate(self._format.peek_params(self._session), None, lambda text: None)
        if not self._format.begins_call(peeked):
            self.drop_call(end_of_call)
            return None
        self._session.truncate(after_newline)
        call = self._decode_call(constraint, self._limits.call, step_index, call_id)
        if call is None or not call.tool_name:
            _logger.warning("A further call of a turn did not end within %d tokens and is left out.", self._limits.call)
            self.drop_call(end_of_call)
            return None
        return call

    def drop_call(self, end_of_call: int) -> None:
        """Cut off what follows a call of the open turn."""
        self._session.truncate(end_of_call)

    def force_submit(self, step_index: int, call_id: str, *, begins_turn: bool) -> Call:
        """Decode a call of `submit`, whatever the model would do.

        Args:
            step_index: its step.
            call_id: its id.
            begins_turn: whether it opens a turn; else it follows a thought.

        Raises:
            OutputTruncatedError: it did not end within `TokenLimits.outputs`, or what is left of the context.
            ConstraintError: the outputs break a rule that no grammar can hold.
        """
        self.generations = []
        if begins_turn:
            self._append(think_closed(self._format.thought_start))
        limit = self._outputs_limit
        call = self._decode_call(self._format.submit_constraint, limit, step_index, call_id)
        if call is None:
            is_full = limit < self._limits.outputs
            advice = "no more is left of the context" if is_full else "raise TokenLimits.outputs"
            raise OutputTruncatedError(
                f"The outputs did not end within {limit:,} tokens; {advice}. What came: "
                f"{self.generations[-1].output.text!r}."
            )
        if call.refusal is not None:
            raise call.refusal
        return call

    def observe(self, texts: Sequence[str], tool_s: float) -> None:
        """Append the observations of a turn."""
        self._append(self._format.observations(texts))
        self.usage.tool_s += tool_s

    @property
    def chose_submit(self) -> bool:
        """Whether the last call, which did not end, was one of `submit`."""
        return self._format.tool_name_of(self.generations[-1].output.text) == SUBMIT

    def _room_left(self, num_tokens: int, num_observations: int) -> int:
        """Return what is left of the context after that and a forced call of `submit`.

        Observations are cut to what is left, so an eighth of the context is kept free for each, if they may take it.
        """
        kept = min(self.observation_limit, self._lm.context_len // 8)
        observations = num_observations * (kept + _FORMAT_TOKENS_PER_CALL)
        outputs = self.kept_outputs + _FORMAT_TOKENS_PER_CALL
        return self._lm.context_len - len(self._session.token_ids) - num_tokens - observations - outputs

    def _require_room(self) -> None:
        if self.has_room_for_turn():
            return
        used = len(self._session.token_ids)
        needed = self._lm.context_len - used - self._room_left(self._limits.thought + self._limits.call, 1)
        raise ContextWindowExceededError(
            f"The conversation with the new inputs has {used:,} tokens, and a turn and the outputs take up to "
            f"{needed:,}, but the context is {self._lm.context_len:,}. Begin a new conversation, shorten the inputs, "
            "or lower TokenLimits."
        )
