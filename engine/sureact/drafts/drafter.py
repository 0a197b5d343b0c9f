"""Drafts for one context: what to guess, and whether guessing pays."""

from collections.abc import Sequence

from sureact.drafts.draft_policy import INT8_COSTS, DraftPolicy, PassCosts
from sureact.drafts.ngram import NgramIndex


class Drafter:
    """Guesses the next tokens of one context from its own text, and learns how often that helps."""

    def __init__(self, max_len: int, *, costs: PassCosts = INT8_COSTS) -> None:
        """Begin with an empty context.

        Args:
            max_len: most tokens of a draft, at least 1.
            costs: what the rows of a pass cost.
        """
        self._max_len = max_len
        self._costs = costs
        self._policy = DraftPolicy(max_len, costs=costs)
        self._index = NgramIndex()

    def propose(self, token_ids: list[int], *, num_pending: int, num_requests: int, max_len: int) -> Sequence[int]:
        """Return tokens that may follow `token_ids`, maybe none.

        Args:
            token_ids: the context.
            num_pending: rows that the request has in the pass anyway.
            num_requests: requests that decode together.
            max_len: most tokens that there is room for.
        """
        draft_len = min(self._policy.draft_len(num_pending, num_requests), max_len)
        if draft_len <= 0:
            return ()
        self._index.update(token_ids)
        return self._index.propose(token_ids, draft_len)

    def record(self, num_drafted: int, num_accepted: int) -> None:
        """Learn from a verified draft."""
        self._policy.record(num_drafted, num_accepted)

    def fork(self) -> "Drafter":
        """Return one for a context that goes its own way; it knows the text so far, and learns anew."""
        fork = Drafter(self._max_len, costs=self._costs)
        fork._index = self._index.copy()
        return fork
