"""What a pass changes: the one place where picks, drafts, dead ends, cuts and cache blocks of a sequence meet.

A sequence is token ids, of which the first `num_cached` are computed. A pass computes the rest, and maybe a draft
behind it. Then tokens are picked row by row, as if there were no draft; a row behind a drafted token counts only if
that token was picked. What was computed and picked is cached; what was computed for nothing is written over.
"""

from collections.abc import Sequence

from sureact.execution.pass_output import PassOutput
from sureact.execution.request_errors import as_exception
from sureact.execution.sampler import DeadEnd, Sampler
from sureact.kv_cache.paged_cache import PagedCache
from sureact.scheduling.batch import ScheduledRequest
from sureact.scheduling.request import Request


class Verifier:
    """Advances requests over what a pass computed. Not thread-safe: the engine holds a lock."""

    def __init__(self, cache: PagedCache, sampler: Sampler) -> None:
        self._cache = cache
        self._sampler = sampler

    def advance(self, entry: ScheduledRequest, output: PassOutput, first_row: int) -> None:
        """Pick what follows an entry's tokens; what goes wrong ends its request only.

        Args:
            entry: a part of the pass.
            output: what the pass said of its `entry.num_picks` rows; its logits may be changed.
            first_row: number of the first of them in the sampler's masks.
        """
        self._cache.commit(entry.request.sequence, entry.end)
        if not entry.is_last_chunk:
            return
        try:
            is_dead_end = self._pick_along(entry, output, first_row)
            self._commit_draft(entry)
            if is_dead_end:
                self._leave_dead_end(entry.request)
        except BaseException as error:  # a constraint that raises, or a spent budget
            entry.request.fail(as_exception(error))

    def cut(self, request: Request) -> None:
        """Leave of a finished request's sequence what remains of its text, and behind it the rest of a cut token."""
        self._cache.truncate(request.sequence, request.num_prompt_tokens + request.num_kept)
        request.sequence.token_ids += request.leftover_ids

    def _pick_along(self, entry: ScheduledRequest, output: PassOutput, first_row: int) -> bool:
        """Pick and accept tokens for as long as they are those of the draft, and one more.

        Returns:
            Whether the last row had no token to pick.
        """
        request, token_ids = entry.request, entry.request.sequence.token_ids
        row = 0
        while row <= len(entry.draft) and _num_equal(token_ids[entry.end :], entry.draft) == row:
            picked = self._sampler.pick(output.rows(row, row + 1), first_row + row, request)
            if isinstance(picked, DeadEnd):
                return True
            request.accept(picked.token_id, picked.logprobs)
            if request.is_done:
                break
            row = len(token_ids) - entry.end
        return False

    def _commit_draft(self, entry: ScheduledRequest) -> None:
        """Keep what was computed for drafted tokens that were picked."""
        sequence = entry.request.sequence
        num_accepted = _num_equal(sequence.token_ids[entry.end :], entry.draft)
        if num_accepted:
            self._cache.commit(sequence, entry.end + num_accepted)
        if entry.draft:
            entry.request.record_draft(len(entry.draft), num_accepted)

    def _leave_dead_end(self, request: Request) -> None:
        """Take tokens back to the latest position that may have another way on; the next pass looks for it there."""
        request.take_back()
        while self._sampler.is_dead_end(request):
            request.take_back()


def _num_equal(token_ids: Sequence[int], draft: Sequence[int]) -> int:
    """Return how many tokens from the start are the same."""
    for index, (token_id, drafted) in enumerate(zip(token_ids, draft, strict=False)):
        if token_id != drafted:
            return index
    return min(len(token_ids), len(draft))
