"""How many tokens to guess: as many as are likely to save more time than their rows cost."""

from bisect import bisect_left

PassCosts = tuple[tuple[int, float], ...]
"""Rows in a pass and its time relative to a pass of one row, rising; between them and past the last it is linear."""

INT8_COSTS: PassCosts = ((1, 1.0), (2, 1.07), (4, 1.22), (8, 1.4), (16, 2.0), (32, 3.5))
INT4_COSTS: PassCosts = ((1, 1.0), (2, 1.07), (4, 1.15), (8, 1.75), (16, 3.1), (32, 5.6))
"""Measured on two AVX-512 cores with the 0.5B and the ops in C++, the head computed for every row."""

GPU_COSTS: PassCosts = ((1, 1.0), (64, 1.1))
"""Assumed, not measured yet: the products of up to 64 rows read their weights once, and little else takes time."""

_MEMORY = 0.85
"""What each verified draft leaves of the weight of those before it."""

_PASSES_BETWEEN_PROBES = 16


class DraftPolicy:
    """Decides for one request. Depends on nothing but what it was asked and told, so runs repeat exactly."""

    def __init__(self, max_len: int, *, costs: PassCosts = INT8_COSTS) -> None:
        """Start with a guess at how often drafts are accepted.

        Args:
            max_len: most tokens of a draft; 0 turns drafts off.
            costs: what the rows of a pass cost.
        """
        self._max_len = max_len
        self._costs = costs
        # Of the drafted tokens that were judged, how many were accepted. It starts as if two of three had been.
        self._num_judged = 3.0
        self._num_accepted = 2.0
        self._num_declined = 0

    def draft_len(self, num_pending: int, num_requests: int) -> int:
        """Return how many tokens to draft in the next pass, 0 to `max_len`.

        Each accepted token saves its request a later pass. The other requests are taken to draft as much, since the
        rows of all add up to what a pass costs.

        Args:
            num_pending: rows that the request has in the pass anyway, at least 1.
            num_requests: requests that decode together, this one included.
        """
        best = self._best_len(num_requests * num_pending, num_requests)
        if best or not self._max_len:
            return best
        # Once due, a probe is asked for until a draft was found for it.
        self._num_declined += 1
        return 1 if self._num_declined > _PASSES_BETWEEN_PROBES else 0

    def record(self, num_drafted: int, num_accepted: int) -> None:
        """Learn from a verified draft."""
        if num_drafted:
            self._num_accepted = _MEMORY * self._num_accepted + num_accepted
            # What comes after the first refused token was never judged.
            self._num_judged = _MEMORY * self._num_judged + min(num_accepted + 1, num_drafted)
            self._num_declined = 0

    def _best_len(self, num_rows: int, num_requests: int) -> int:
        """Return the length that is likely to save most time, 0 where none does."""
        rate = self._num_accepted / self._num_judged
        later_cost, cost_without = self._pass_cost(num_requests), self._pass_cost(num_rows)
        best, most_saved = 0, 0.0
        likelihood, num_expected = 1.0, 0.0
        for length in range(1, self._max_len + 1):
            likelihood *= rate
            num_expected += likelihood
            saved = num_expected * later_cost - (self._pass_cost(num_rows + num_requests * length) - cost_without)
            if saved > most_saved:
                best, most_saved = length, saved
        return best

    def _pass_cost(self, num_rows: int) -> float:
        upper = min(max(bisect_left(self._costs, (num_rows, 0.0)), 1), len(self._costs) - 1)
        (rows, cost), (more_rows, more_cost) = self._costs[upper - 1], self._costs[upper]
        return cost + (more_cost - cost) * (num_rows - rows) / (more_rows - rows)
