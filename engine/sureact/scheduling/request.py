"""One prompt being generated: from admission to the last token, and the way its text travels to the caller."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.repetition import repetition_now
from sureact.errors import ConstraintStateError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import EarlyEnd, FinishReason, StepLogprobs, StepOutput, StepTimings, StreamDelta, TokenUsage
from sureact.sampling_params import SamplingParams
from sureact.scheduling.generated_text import FinishedText, GeneratedText
from sureact.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from sureact.drafts.drafter import Drafter

LogitsProcessor = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From the ids so far `[1, num_tokens]` and logits `[1, num_logits]`, float32, to logits, as in transformers."""


@dataclass(slots=True)
class Seconds:
    """Where the time of a request went."""

    prefill: float = 0.0
    decode: float = 0.0
    mask: float = 0.0


@dataclass(slots=True)
class Refusals:
    """How often the constraint of a request refused what its mask had offered."""

    vetoes: int = 0
    """Tokens refused one by one."""
    dead_ends: int = 0
    """Texts that no token could continue."""
    rollbacks: int = 0
    """Tokens taken back."""
    is_budget_exhausted: bool = False
    """Whether the request failed because it may take no more tokens back."""


@dataclass(slots=True)
class Guesses:
    """Tokens that came without a step of their own."""

    forced: int = 0
    """Tokens that the constraint left no choice about."""
    drafted: int = 0
    """Tokens guessed and verified."""
    accepted: int = 0
    """Of these, tokens that were picked."""


@dataclass(slots=True, eq=False)
class Request:
    """One generation on a sequence. The engine's thread advances it; any thread may read its deltas or abort it."""

    sequence: CachedSequence
    params: SamplingParams
    vocabulary: Vocabulary
    encode: Callable[[str], Sequence[int]]
    """Tokenizes the text between the last kept token and a stop."""
    constraint: ConstraintState | None = None
    judge: Callable[[str], object] | None = None
    """From a text that is complete under the constraint to its value."""
    logits_processor: LogitsProcessor | None = None
    """Somebody else's way to say what may come next, in place of a constraint. It runs on the engine's thread."""
    repetition_penalty: float = 1.0
    max_rollbacks: int = 0
    """Tokens that it may take back."""
    owns_sequence: bool = False
    """Whether the sequence goes with the request; a session keeps its own."""
    drafter: "Drafter | None" = None
    """Guesses the next tokens; without one, forced text is picked token by token too."""
    num_prompt_tokens: int = 0
    num_prefill_tokens: int = 0
    """Tokens from the start that are read in chunks: the prompt, and after a preemption all there were."""
    num_accepted: int = 0
    """Tokens added, those taken back later too."""
    num_cached_at_start: int | None = None
    """Tokens whose keys and values were there before the first pass; None until then."""
    seconds: Seconds = field(default_factory=Seconds)
    refusals: Refusals = field(default_factory=Refusals)
    guesses: Guesses = field(default_factory=Guesses)
    num_kept: int = 0
    """Generated tokens that stay in the context, once the request is done."""
    leftover_ids: tuple[int, ...] = ()
    """Tokens of the text between the last kept one and a stop, once the request is done."""
    is_done: bool = False
    is_abort_wanted: bool = False
    draws: random.Random = field(init=False)
    """The random numbers of this request alone, fixed by its seed whoever runs beside it."""
    _text: GeneratedText = field(init=False)
    _logprobs: list[StepLogprobs] = field(init=False, default_factory=list[StepLogprobs])
    _forced_indices: list[int] = field(init=False, default_factory=list[int])
    _early_ends: tuple[EarlyEnd, ...] = field(init=False, default=())
    _num_shown: int = field(init=False, default=0)
    """Generated ids that were handed out."""
    deliver: Callable[["StreamDelta | BaseException"], None] = field(init=False)
    """Takes each delta, and the error of a failed request, on the engine's thread; must neither block nor raise."""
    _last_delta: StreamDelta | BaseException | None = field(init=False, default=None)
    _deltas: SimpleQueue[StreamDelta | BaseException] = field(init=False, default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        """Begin the text; the tokens in the sequence now are the prompt."""
        self._text = GeneratedText(self.vocabulary, self.params)
        self.deliver = self._deltas.put
        self.num_prompt_tokens = self.num_prefill_tokens = len(self.sequence)
        self.draws = random.Random(self.params.seed)

    @property
    def generated_ids(self) -> list[int]:
        """Ids picked and not taken back, before any cut."""
        return self._text.token_ids

    @property
    def max_len(self) -> int:
        """Tokens that the sequence can reach."""
        return self.num_prompt_tokens + self.params.max_tokens

    def may_end(self, num_ahead: int = 0) -> bool:
        """Whether an end-of-sequence token may be picked `num_ahead` tokens from now."""
        return self.params.ignore_eos or len(self.generated_ids) + num_ahead >= self.params.min_tokens

    @property
    def takes_likeliest(self) -> bool:
        """Whether its next token is that with the largest logit among those its mask allows.

        Nothing but the repetition penalty changes logits; its constraint may still refuse the token.
        """
        params = self.params
        return (
            params.is_greedy
            and params.logprobs is None
            and self.logits_processor is None
            and not (params.presence_penalty or params.frequency_penalty)
        )

    @property
    def decodes_freely(self) -> bool:
        """Whether one mask holds for all tokens to come, so that they can be picked without asking the host."""
        return self.takes_likeliest and self.constraint is None and self.may_end()

    @property
    def takes_forced_text(self) -> bool:
        """Whether text without a choice is written without asking the model."""
        return self.drafter is not None and self.constraint is not None and self.logits_processor is None

    def begin(self) -> None:
        """Write what the constraint forces at the start of the text."""
        self._accept_forced()

    def accept(self, token_id: int, logprobs: StepLogprobs | None) -> None:
        """Add the picked token and the text that must follow it; end the request if that ends the text."""
        if logprobs is not None:
            self._logprobs.append(logprobs)
        self._accept(token_id)
        self._accept_forced()

    def note_cached(self) -> None:
        """Remember, before the first pass, how much of the prompt need not be computed."""
        if self.num_cached_at_start is None:
            self.num_cached_at_start = min(self.sequence.num_cached, self.num_prompt_tokens)

    def propose_draft(self, num_requests: int) -> tuple[int, ...]:
        """Return tokens that the model may pick next and the constraint allows, maybe none.

        Args:
            num_requests: requests that decode together.
        """
        if self.drafter is None or self.logits_processor is not None:
            return ()
        num_pending = len(self.sequence) - self.sequence.num_cached
        # The last token that may come is not worth a guess: the pass picks one without.
        room = self.params.max_tokens - len(self.generated_ids) - 1
        draft = self.drafter.propose(
            self.sequence.token_ids, num_pending=num_pending, num_requests=num_requests, max_len=room
        )
        if self.constraint is not None and draft:
            num_legal = self.constraint.accept_tokens(draft)
            self.constraint.rollback(num_legal)
            draft = draft[:num_legal]
        return tuple(draft)

    def record_draft(self, num_drafted: int, num_accepted: int) -> None:
        """Count a verified draft, and learn from it."""
        self.guesses.drafted += num_drafted
        self.guesses.accepted += num_accepted
        if self.drafter is not None:
            self.drafter.record(num_drafted, num_accepted)

    def take_back(self) -> None:
        """Leave a dead end: remove the last token, so that another is picked in its place.

        The token before it is computed again, since its logits are needed.

        Raises:
            ConstraintStateError: the constraint knows no dead ends, no generated token is left, or `max_rollbacks` is
                reached.
        """
        assert self.constraint is not None, "only a constraint has dead ends"
        self.constraint.mark_dead_end()
        self.refusals.dead_ends += 1
        self._check_can_take_back()
        self.constraint.rollback(1)
        self.refusals.rollbacks += 1
        self._text.take_back()
        if self._forced_indices[-1:] == [len(self.generated_ids)]:
            self._forced_indices.pop()
        if self._logprobs:
            self._logprobs.pop()
        del self.sequence.token_ids[-1]
        self.sequence.num_cached = min(self.sequence.num_cached, len(self.sequence) - 1)
        self.num_prefill_tokens = min(self.num_prefill_tokens, len(self.sequence))

    def abort(self) -> None:
        """End the request where it stands."""
        if not self.is_done:
            self._finish("abort", None)

    def fail(self, error: BaseException) -> None:
        """End the request with an error, which its reader gets."""
        self.is_done = True
        self._last_delta = error

    def retire(self) -> None:
        """Hand out the last delta or the error; the sequence is cut and idle by now, so its reader may use it."""
        assert self._last_delta is not None, "a request is retired before it is done"
        with suppress(Exception):  # a reader that cannot be reached must not end the others' requests
            self.deliver(self._last_delta)

    def deltas(self) -> Iterator[StreamDelta]:
        """Yield the text as it comes; the last delta carries the output.

        Raises:
            SureactError: the request failed.
        """
        while True:
            delta = self._deltas.get()
            if isinstance(delta, BaseException):
                raise delta
            yield delta
            if delta.output is not None:
                return

    def _accept(self, token_id: int) -> None:
        self.sequence.token_ids.append(token_id)
        self.num_accepted += 1
        if self._is_eos(token_id):
            self._text.push(token_id)
            self._finish("stop", token_id, drop_last_token=not self.params.include_stop)
            return
        if self.constraint is not None:
            self.constraint.accept_token(token_id)
        num_settled = self.constraint.num_settled_tokens if self.constraint is not None else None
        text = self._text.push(token_id, num_settled=num_settled)
        if self._text.stop_match is not None:
            self._finish("stop", self._text.stop_match.stop)
        elif self.constraint is not None and self.constraint.is_terminated:
            self._finish("stop", None, text=text)
        elif len(self.generated_ids) >= self.params.max_tokens or self._runs_on():
            self._finish("length", None, text=text)
        else:
            self._hand_out(text, num_settled)

    def _runs_on(self) -> bool:
        """Whether free text repeats itself; what a constraint holds ends by its own means."""
        limits = self.params.runaway
        if self.constraint is not None or limits is None or limits.repeated_tokens is None:
            return False
        if repetition_now(self.generated_ids, limits.repeated_tokens) is None:
            return False
        self._early_ends = (EarlyEnd("repetition", len(self.generated_ids), None),)
        return True

    def _accept_forced(self) -> None:
        """Add tokens as long as there is no choice: the mask would leave one bit, so logits could pick no other."""
        while self.takes_forced_text and self.constraint is not None and not self.is_done:
            forced = self.constraint.forced_tokens()
            for token_id in forced:
                if self.is_done:
                    return
                if not self.params.is_greedy:
                    self.draws.random()  # the draw that would have picked it, so that later ones stay the same
                self.guesses.forced += 1
                self._forced_indices.append(len(self.generated_ids))
                self._accept(token_id)
            if not forced:
                return

    def _check_can_take_back(self) -> None:
        num_rollbacks = self.refusals.rollbacks
        if not self.generated_ids:
            raise ConstraintStateError(
                f"The constraint refused every token that can begin the text, after {num_rollbacks:,} tokens were "
                "taken back. No text that the model can write may satisfy it: simplify the schema."
            )
        if num_rollbacks >= self.max_rollbacks:
            self.refusals.is_budget_exhausted = True
            raise ConstraintStateError(
                f"The constrained text came to a dead end again and again: {num_rollbacks:,} tokens were taken back, "
                f"and max_rollbacks is {self.max_rollbacks:,}. Simplify the schema, or raise max_rollbacks."
            )
        if len(self.generated_ids) <= self._num_shown:
            raise ConstraintStateError(
                "The constrained text came to a dead end after a part of it was shown, which cannot be taken back. "
                "No value that begins like this satisfies the schema: simplify it."
            )

    def _hand_out(self, text: str, num_settled: int | None) -> None:
        token_ids = tuple(self.generated_ids[self._num_shown : num_settled])
        if text or token_ids:
            shown, self._num_shown = self._num_shown, self._num_shown + len(token_ids)
            logprobs = tuple(self._logprobs[shown : self._num_shown])
            self.deliver(StreamDelta(text=text, token_ids=token_ids, logprobs=logprobs))

    def _is_eos(self, token_id: int) -> bool:
        return not self.params.ignore_eos and token_id in self.vocabulary.eos_ids

    def _finish(
        self,
        reason: FinishReason,
        stop_reason: str | tuple[int, ...] | int | None,
        *,
        text: str = "",
        drop_last_token: bool = False,
    ) -> None:
        finished, rest = self._text.finish(drop_last_token=drop_last_token)
        self.is_done = True
        self.num_kept = len(finished.kept_ids)
        self.leftover_ids = tuple(self.encode(finished.leftover)) if finished.leftover else ()
        last_ids = tuple(self.generated_ids[self._num_shown :])
        logprobs = tuple(self._logprobs[self._num_shown :])
        output = self._output(reason, stop_reason, finished)
        self._last_delta = StreamDelta(text=text + rest, token_ids=last_ids, logprobs=logprobs, output=output)

    def _output(
        self, reason: FinishReason, stop_reason: str | tuple[int, ...] | int | None, finished: FinishedText
    ) -> StepOutput:
        return StepOutput(
            text=finished.text,
            token_ids=(*finished.kept_ids, *self.leftover_ids),
            finish_reason=reason,
            stop_reason=stop_reason,
            usage=TokenUsage(
                prompt_tokens=self.num_prompt_tokens,
                cached_tokens=self.num_cached_at_start or 0,
                completion_tokens=len(self.generated_ids),
                forced_tokens=self.guesses.forced,
                draft_tokens=self.guesses.drafted,
                accepted_draft_tokens=self.guesses.accepted,
            ),
            timings=StepTimings(prefill_s=self.seconds.prefill, decode_s=self.seconds.decode, mask_s=self.seconds.mask),
            logprobs=tuple(self._logprobs) if self.params.logprobs is not None else None,
            forced_indices=tuple(index for index in self._forced_indices if index < len(finished.kept_ids)),
            early_ends=self._early_ends if self.constraint is None else self.constraint.early_ends,
        )
