"""What one step of the engine runs."""

from dataclasses import dataclass

from sureact.scheduling.request import Request


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """A stretch of one request's tokens to compute in this step."""

    request: Request
    start: int
    """Index of the first token to compute; everything before it is cached."""
    num_tokens: int

    @property
    def end(self) -> int:
        """Index after the last token to compute."""
        return self.start + self.num_tokens

    @property
    def is_last_chunk(self) -> bool:
        """Whether the pass reaches the end of the sequence, so that a token is picked after it."""
        return self.end == len(self.request.sequence)

    @property
    def is_prefill(self) -> bool:
        """Whether the stretch belongs to the prompt; a decode step computes the one token picked last."""
        return self.start < self.request.num_prompt_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """The requests of one step, at least one."""

    entries: tuple[ScheduledRequest, ...]

    @property
    def is_decode(self) -> bool:
        """Whether no entry belongs to a prompt."""
        return not any(entry.is_prefill for entry in self.entries)
