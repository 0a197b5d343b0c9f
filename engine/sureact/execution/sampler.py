"""Picks the next token of a request from its logits: penalties, mask, argmax or draw, and the constraint's veto."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.token_bitmask import allocate_token_bitmask, clear_token, legal_bitmask
from sureact.errors import ConstraintStateError
from sureact.execution.pass_output import PassOutput
from sureact.execution.seen_ids import SeenIds
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import StepLogprobs, TokenLogprob
from sureact.scheduling.batch import ScheduledRequest
from sureact.scheduling.request import LogitsProcessor, Request
from sureact.tokens.vocabulary import Vocabulary
from sureact_kernels.masked_argmax import allowed_ids, masked_argmax, penalized
from sureact_kernels.sample import sample

MAX_VETOES = 4096
"""Tokens that a constraint may refuse at one position; then the position counts as a dead end."""

_MAX_DRAWS = 32
"""Draws at one position, each of which sorts the vocabulary; the tokens after them are tried likeliest first."""

_MAX_PROBED = 32
"""Tokens that are tried without logits to see whether a position is a dead end."""


class PickedToken(NamedTuple):
    """The next token of a request."""

    token_id: int
    logprobs: StepLogprobs | None


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """No token: the constraint refused each that its mask offered."""


class Sampler:
    """Picks tokens row by row; a row's pick depends on nothing but its logits and its request.

    A row is a position whose next token is picked: the end of a sequence, or a drafted token. Masks of all rows of a
    step are filled before any logit is looked at, while a GPU still computes them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
        self._errors: dict[int, BaseException] = {}
        self._seen: WeakKeyDictionary[CachedSequence, SeenIds] = WeakKeyDictionary()
        """Of each text with a repetition penalty."""
        self._free_mask = legal_bitmask(vocabulary, vocabulary.control_ids)[0]

    @torch.inference_mode()
    def fill_masks(self, entries: Sequence[ScheduledRequest]) -> torch.Tensor:
        """Write what may come next at every row of a step's entries, one after another.

        Returns:
            `[num_rows, words]`, int32, on the host: the ids whose logits each row needs, a superset of its mask.
        """
        num_rows = sum(entry.num_picks for entry in entries)
        if num_rows > len(self._bitmask):
            self._bitmask = allocate_token_bitmask(num_rows, self._vocabulary.num_logits)
        self._errors.clear()
        rows_with_all: list[int] = []
        row = 0
        for entry in entries:
            self._fill_rows(row, entry)
            if _needs_all_logits(entry.request):
                rows_with_all += range(row, row + entry.num_picks)
            row += entry.num_picks
        needed = self._bitmask[:num_rows]
        if rows_with_all:
            needed = needed.clone()
            needed[rows_with_all] = -1
        return needed

    @torch.inference_mode()
    def pick(self, output: PassOutput, row: int, request: Request) -> PickedToken | DeadEnd:
        """Pick the token of a row.

        Args:
            output: one row of a pass: that row; its logits may be changed.
            row: number of the row in the last `fill_masks`.
            request: whose text all tokens before the row belong to by now.

        Raises:
            Exception: what the request's constraint raised, there or here; it concerns this request alone.
        """
        if row in self._errors:
            raise self._errors[row]
        constraint = request.constraint
        if output.likeliest is not None and request.takes_likeliest:
            (token_id,) = output.likeliest
            if constraint is None or constraint.check_token(token_id):
                return PickedToken(token_id, None)
        assert output.logits is not None, "the pass left out logits that this request needs"
        logits = output.logits[0]
        self._apply_penalties(logits, request)
        if request.logits_processor is not None:
            logits = self._processed(logits, row, request.logits_processor, request.sequence.token_ids)
        logprobs = logits.log_softmax(-1) if request.params.logprobs is not None else None
        for token_id in islice(self._candidates(logits, row, request), MAX_VETOES):
            if constraint is None or constraint.check_token(token_id):
                return PickedToken(token_id, _step_logprobs(logprobs, token_id, request.params.logprobs))
            request.refusals.vetoes += 1
        return DeadEnd()

    def is_dead_end(self, request: Request) -> bool:
        """Whether the constraint offers few tokens and refuses each of them, so that no logits are needed to know."""
        assert request.constraint is not None, "only a constraint has dead ends"
        bitmask = allocate_token_bitmask(1, self._vocabulary.num_logits)
        request.constraint.fill_bitmask(bitmask, 0)
        token_ids = allowed_ids(bitmask[0]).tolist()
        return len(token_ids) <= _MAX_PROBED and not any(map(request.constraint.check_token, token_ids))

    def _fill_rows(self, first_row: int, entry: ScheduledRequest) -> None:
        """Fill the rows of an entry; an error is kept for the first row that it concerns and those behind it."""
        request = entry.request
        start = time.perf_counter()
        num_filled = 0
        try:
            if request.constraint is None:
                for num_filled in range(entry.num_picks):
                    self._fill_free_row(first_row + num_filled, request, num_ahead=num_filled)
            else:
                for state in _states_along(request.constraint, entry):
                    state.fill_bitmask(self._bitmask, first_row + num_filled)
                    num_filled += 1
        except BaseException as error:  # one request's constraint must not end the others
            self._errors.update(dict.fromkeys(range(first_row + num_filled, first_row + entry.num_picks), error))
        request.seconds.mask += time.perf_counter() - start

    def _fill_free_row(self, row: int, request: Request, *, num_ahead: int) -> None:
        self._bitmask[row].copy_(self._free_mask)
        if not request.may_end(num_ahead):
            for eos_id in self._vocabulary.eos_ids:
                clear_token(self._bitmask, row, eos_id)

    def _apply_penalties(self, logits: torch.Tensor, request: Request) -> None:
        """Change `logits` `[num_logits]` in place as transformers (repetition) and OpenAI (presence, frequency) do."""
        params, sequence = request.params, request.sequence
        if request.repetition_penalty != 1:
            seen = self._seen.setdefault(sequence, SeenIds()).of(sequence.token_ids, logits.device)
            # Filled on the device: a copy of the number would have the host wait for a GPU.
            penalty = torch.full((), request.repetition_penalty, dtype=torch.float32, device=logits.device)
            logits[seen] = penalized(logits[seen], penalty)
        if (params.presence_penalty or params.frequency_penalty) and request.generated_ids:
            ids, counts = torch.tensor(request.generated_ids, device=logits.device).unique(return_counts=True)
            logits[ids] -= params.presence_penalty + params.frequency_penalty * counts

    def _processed(
        self, logits: torch.Tensor, row: int, processor: LogitsProcessor, token_ids: list[int]
    ) -> torch.Tensor:
        """Let a foreign processor change the logits; it must leave a token that may be picked."""
        ids = torch.tensor([token_ids], device=logits.device)
        processed = processor(ids, logits.unsqueeze(0)).squeeze(0)
        if not (processed[allowed_ids(self._bitmask[row].to(logits.device))] > -torch.inf).any():
            raise ConstraintStateError("The logits processor left no token of this model; the text cannot go on.")
        return processed

    def _candidates(self, logits: torch.Tensor, row: int, request: Request) -> Iterator[int]:
        """Yield the tokens of a row of the mask, each once, in the order in which they are tried."""
        mask = self._bitmask[row]
        for _ in range(1 if request.params.is_greedy else _MAX_DRAWS):
            token_id = self._choose(logits, mask, request)
            yield token_id
            clear_token(self._bitmask, row, token_id)
            if not mask.any():
                return
        ids = allowed_ids(mask.to(logits.device))
        values = logits[ids]
        for _ in range(len(ids)):
            best = int(values.argmax())
            if values[best] == -torch.inf:
                return
            yield int(ids[best])
            values[best] = -torch.inf

    def _choose(self, logits: torch.Tensor, mask: torch.Tensor, request: Request) -> int:
        params = request.params
        on_device = mask.to(logits.device, non_blocking=True)
        if params.is_greedy:
            return int(masked_argmax(logits.unsqueeze(0), on_device.unsqueeze(0)))
        return sample(
            logits,
            on_device,
            request.draws.random(),
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
        )


def _states_along(constraint: ConstraintState, entry: ScheduledRequest) -> Iterator[ConstraintState]:
    """Yield the constraint's position at each row of an entry: where it is, and behind each drafted token."""
    if entry.num_picks:
        yield constraint
    if entry.draft:
        ahead = constraint.fork()
        for token_id in entry.draft:
            ahead.accept_token(token_id)
            yield ahead


def _needs_all_logits(request: Request) -> bool:
    return request.params.logprobs is not None or request.logits_processor is not None


def _step_logprobs(logprobs: torch.Tensor | None, token_id: int, num_top: int | None) -> StepLogprobs | None:
    if logprobs is None or num_top is None:
        return None
    values, ids = logprobs.topk(num_top)
    top = tuple(TokenLogprob(i, v) for i, v in zip(ids.tolist(), values.tolist(), strict=True))
    return StepLogprobs(TokenLogprob(token_id, float(logprobs[token_id])), top)
