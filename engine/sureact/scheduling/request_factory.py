"""Checks what is asked of a context and makes the request for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sureact.constraints.closing_state import ClosingState
from sureact.constraints.early_end import declared_lengths
from sureact.constraints.python_type import constraint_of
from sureact.drafts.draft_policy import GPU_COSTS, INT4_COSTS, INT8_COSTS
from sureact.drafts.drafter import Drafter
from sureact.errors import ConfigError, PromptTooLongError
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig
    from sureact.constraints.constraint import Constraint, ConstraintState
    from sureact.kv_cache.cached_sequence import CachedSequence
    from sureact.tokens.prompt_encoder import PromptEncoder
    from sureact.tokens.tokenizer import Tokenizer
    from sureact.tokens.vocabulary import Vocabulary


class RequestFactory:
    """Makes requests for one engine. Thread-safe."""

    def __init__(
        self, config: ResolvedConfig, tokenizer: Tokenizer, encoder: PromptEncoder, repetition_penalty: float
    ) -> None:
        """Remember what every request of the engine needs.

        Args:
            config: settings.
            tokenizer: of the model.
            encoder: checks token ids.
            repetition_penalty: of requests that set none.
        """
        self._config = config
        self._tokenizer = tokenizer
        self._encoder = encoder
        self._repetition_penalty = repetition_penalty

    def new_request(
        self,
        sequence: CachedSequence,
        params: SamplingParams | None,
        constraint: object,
        *,
        index: int = 0,
        owns_sequence: bool = False,
        drafter: Drafter | None = None,
    ) -> Request:
        """Check and compile what is asked of `sequence`.

        Args:
            sequence: the tokens to generate after.
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.
            index: tells the `n` completions of a prompt apart.
            owns_sequence: whether the sequence goes with the request.
            drafter: what is known of the sequence's habits; None begins anew.

        Raises:
            ConfigError: a parameter does not go with the constraint or the vocabulary.
            PromptTooLongError: the tokens and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled.
        """
        params = self._with_control_stops(params or SamplingParams())
        if index and params.seed is not None:
            params = replace(params, seed=params.seed + index)
        self._check_length(len(sequence), params)
        for stop in params.stop_token_ids:
            self._encoder.checked_ids(stop)
        asked_for = None if constraint is None else constraint_of(constraint)
        if asked_for is not None:
            _check_constrained(params)
        vocabulary, penalty = self._tokenizer.vocabulary, params.repetition_penalty
        return Request(
            sequence,
            params,
            vocabulary,
            self._tokenizer.encode,
            asked_for and _new_state(asked_for, vocabulary, params),
            asked_for and asked_for.parse,
            owns_sequence=owns_sequence,
            max_rollbacks=self._config.max_rollbacks,
            repetition_penalty=self._repetition_penalty if penalty is None else penalty,
            drafter=self._drafter(params, drafter),
        )

    def new_drafter(self) -> Drafter | None:
        """Return what guesses the next tokens of one context; None where nothing is to be guessed."""
        if not self._config.max_draft_len:
            return None
        costs = INT4_COSTS if self._config.quantization == "int4" else INT8_COSTS
        if not self._config.device.startswith("cpu"):
            costs = GPU_COSTS
        return Drafter(self._config.max_draft_len, costs=costs)

    def _drafter(self, params: SamplingParams, known: Drafter | None) -> Drafter | None:
        # Every log-probability comes from a pass of its own position; guesses would only add passes.
        return None if params.logprobs is not None else known or self.new_drafter()

    def _with_control_stops(self, params: SamplingParams) -> SamplingParams:
        """Let a stop that spells a control token match that token, which has no text of its own."""
        control_ids = self._tokenizer.control_tokens
        extra = [(control_ids[text],) for text in params.stop_texts if text in control_ids]
        return replace(params, stop=(*params.stop_texts, *params.stop_token_ids, *extra)) if extra else params

    def _check_length(self, num_tokens: int, params: SamplingParams) -> None:
        if num_tokens + params.max_tokens > self._config.max_model_len:
            raise PromptTooLongError(
                f"The prompt has {num_tokens:,} tokens; this engine takes {self._config.max_model_len:,} including "
                f"max_tokens={params.max_tokens:,}. Shorten the prompt or lower max_tokens."
            )


def _new_state(constraint: Constraint, vocabulary: Vocabulary, params: SamplingParams) -> ConstraintState:
    state = constraint.compile(vocabulary).new_state()
    if params.on_max_tokens == "cut" and params.runaway is None:
        return state
    return ClosingState(
        state,
        vocabulary,
        max_tokens=params.max_tokens if params.on_max_tokens == "close" else None,
        limits=params.runaway,
        lengths=declared_lengths(constraint.cache_key),
    )


def _check_constrained(params: SamplingParams) -> None:
    for name, is_set in (
        ("stop", bool(params.stop)),
        ("min_tokens", params.min_tokens > 0),
        ("ignore_eos", params.ignore_eos),
    ):
        if is_set:
            raise ConfigError(f"{name} cannot be combined with a constraint: the constraint says where the text ends.")
