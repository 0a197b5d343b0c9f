"""What one step of the engine runs."""

from dataclasses import dataclass

from sureact.scheduling.request import Request


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """A stretch of one request's tokens to compute in this step, and tokens guessed to follow it."""

    request: Request
    start: int
    """Index of the first token to compute; everything before it is cached."""
    num_tokens: int
    """Tokens of the sequence to compute, without the draft."""
    draft: tuple[int, ...] = ()
    """Ids guessed to follow the end of the sequence; only where the stretch reaches it."""

    @property
    def end(self) -> int:
        """Index after the last token of the sequence to compute."""
        return self.start + self.num_tokens

    @property
    def num_rows(self) -> int:
        """Positions to compute, the draft included."""
        return self.num_tokens + len(self.draft)

    @property
    def is_last_chunk(self) -> bool:
        """Whether the pass reaches the end of the sequence, so that a token is picked after it; asked before it is."""
        return self.end == len(self.request.sequence)

    @property
    def is_prefill(self) -> bool:
        """Whether the stretch is read like a prompt; a decode step computes what was picked last."""
        return self.start < self.request.num_prefill_tokens

    @property
    def num_picks(self) -> int:
        """Positions whose logits are needed: the end of the sequence, and each drafted token."""
        return 1 + len(self.draft) if self.is_last_chunk else 0

    @property
    def token_ids(self) -> list[int]:
        """The ids to compute."""
        return [*self.request.sequence.token_ids[self.start : self.end], *self.draft]


@dataclass(frozen=True, slots=True)
class Batch:
    """The requests of one step, at least one."""

    entries: tuple[ScheduledRequest, ...]

    @property
    def is_decode(self) -> bool:
        """Whether no entry belongs to a prompt."""
        return not any(entry.is_prefill for entry in self.entries)

    @property
    def num_picks(self) -> int:
        """Rows of logits of all entries."""
        return sum(entry.num_picks for entry in self.entries)
