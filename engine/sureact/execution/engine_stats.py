"""What an engine did since it started, counted."""

from dataclasses import dataclass, replace

from sureact.scheduling.batch import Batch
from sureact.scheduling.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What the engine did since it started."""

    num_requests: int = 0
    num_steps: int = 0
    """Forward passes."""
    num_decode_steps: int = 0
    """Of these, passes without a stretch of a prompt."""
    prefill_tokens: int = 0
    """Tokens read in stretches: prompts, the text forced right behind them, and what is computed again after an
    eviction or a preemption."""
    generated_tokens: int = 0
    """Tokens that requests which ended had generated, those taken back too."""
    decode_tokens: int = 0
    """Tokens that passes without a stretch of a prompt brought: what `decode_s` was spent on."""
    cached_tokens: int = 0
    """Tokens of prompts whose keys and values were there already."""
    forced_tokens: int = 0
    """Generated tokens that constraints left no choice about, so that the model was not asked."""
    draft_tokens: int = 0
    """Tokens guessed and verified by the model."""
    accepted_draft_tokens: int = 0
    """Of these, tokens that the model picked too."""
    prefill_s: float = 0.0
    """Seconds of passes with a stretch of a prompt, whoever decoded beside it."""
    decode_s: float = 0.0
    """Seconds of the other passes."""
    mask_s: float = 0.0
    num_vetoes: int = 0
    """Tokens that constraints refused although their masks offered them."""
    num_dead_ends: int = 0
    """Constrained texts that no token could continue."""
    num_rollbacks: int = 0
    """Tokens taken back from dead ends."""
    num_budget_exhausted: int = 0
    """Requests that failed because they had taken back `max_rollbacks` tokens."""
    num_late_refusals: int = 0
    """Complete texts that only the last judge refused: a fault of sureact, so it should stay 0."""
    num_preemptions: int = 0
    """Running requests that gave their cache blocks to an older one and were computed again."""
    num_evictions: int = 0
    num_running: int = 0
    num_waiting: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    weight_bytes_per_token: int = 0
    """Bytes of weight matrices that a decode step reads at least."""

    @property
    def decode_tokens_per_s(self) -> float:
        """Decoded tokens per second of passes that only decode, of all requests together."""
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prompt tokens computed per second of passes that read prompts."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode_gb_per_s(self) -> float:
        """Weights read per second of decoding, in 10^9 bytes: what to hold against the bandwidth of the memory."""
        return self.num_decode_steps * self.weight_bytes_per_token / self.decode_s / 1e9 if self.decode_s else 0.0

    @property
    def draft_acceptance(self) -> float:
        """Share of the guessed tokens that the model picked."""
        return self.accepted_draft_tokens / self.draft_tokens if self.draft_tokens else 0.0

    def with_step(self, batch: Batch, seconds: float, num_generated: int) -> "EngineStats":
        """Return the counts after a step.

        Args:
            batch: what ran.
            seconds: how long it took.
            num_generated: tokens that it brought.
        """
        num_prefill = sum(entry.num_tokens for entry in batch.entries if entry.is_prefill)
        if num_prefill:
            return replace(
                self,
                num_steps=self.num_steps + 1,
                prefill_tokens=self.prefill_tokens + num_prefill,
                prefill_s=self.prefill_s + seconds,
            )
        return replace(
            self,
            num_steps=self.num_steps + 1,
            num_decode_steps=self.num_decode_steps + 1,
            decode_tokens=self.decode_tokens + num_generated,
            decode_s=self.decode_s + seconds,
        )

    def with_request(self, request: Request) -> "EngineStats":
        """Return the counts after a request that ended."""
        refusals, guesses = request.refusals, request.guesses
        return replace(
            self,
            num_requests=self.num_requests + 1,
            generated_tokens=self.generated_tokens + request.num_accepted,
            cached_tokens=self.cached_tokens + (request.num_cached_at_start or 0),
            forced_tokens=self.forced_tokens + guesses.forced,
            draft_tokens=self.draft_tokens + guesses.drafted,
            accepted_draft_tokens=self.accepted_draft_tokens + guesses.accepted,
            mask_s=self.mask_s + request.seconds.mask,
            num_vetoes=self.num_vetoes + refusals.vetoes,
            num_dead_ends=self.num_dead_ends + refusals.dead_ends,
            num_rollbacks=self.num_rollbacks + refusals.rollbacks,
            num_budget_exhausted=self.num_budget_exhausted + refusals.is_budget_exhausted,
        )
