"""Which bytes each token id stands for, and which ids are not text. Built once per model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """The token ids of a model, as wide as its head."""

    token_bytes: tuple[bytes, ...]
    """Bytes per id, one entry per row of the head; empty for control tokens and for unused rows."""
    control_ids: frozenset[int]
    """Ids that steer the model (`<|im_end|>`, `<tool_call>`): legal only where something names them."""
    unused_ids: frozenset[int]
    """Rows of the head without a token (padding): never legal, never sampled."""
    eos_ids: tuple[int, ...]
    """Ids that end a text: the union of what config, generation config and tokenizer say."""
    tokenizer_json: str | None
    """The tokenizer as Hugging Face JSON text without unused entries; None for a bare byte vocabulary in tests."""
    fingerprint: str
    """Changes when any of the above does; part of cache keys."""

    @property
    def num_logits(self) -> int:
        """Rows of the head: the width of logits and masks."""
        return len(self.token_bytes)
