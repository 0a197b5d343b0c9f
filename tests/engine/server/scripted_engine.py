"""An engine whose model says what it is told to: stops, constraints, text and cache are the real ones."""

from __future__ import annotations

import json
import random
import re
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sureact.engine import Engine
from sureact.kv_cache.cached_sequence import CachedSequence

if TYPE_CHECKING:
    import torch

    from sureact.scheduling.request import Request

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
VOCAB_SIZE = 512

CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools:{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n"
    "Call them within <tool_call></tool_call>.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined %}{% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}{% endif %}"
)
"""Like Qwen's; `enable_thinking` opens a thought, or closes it at once."""

_CORPUS = [
    'Hello there, how are you today? {"name": "get_weather", "arguments": {"city": "Paris"}}',
    "The answer is 42.\nObservation: done. 你好 😀 é ``` ```json",
] * 3


def write_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer with some merges, so that a text has many tokenizations."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(CONTROL_TOKENS) - 20,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


class ScriptedEngine(Engine):
    """Says the first of `scripts` that goes on as it has begun, control tokens spelled out, and then ends its text.

    What a mask forbids it cannot say.

    `split` draws how the script is cut into tokens. Without a script it says what its random weights say.
    """

    scripts: tuple[bytes, ...] = ()
    split: random.Random | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._starts: weakref.WeakKeyDictionary[CachedSequence, int] = weakref.WeakKeyDictionary()
        self._cuts: dict[tuple[bytes, int], int] = {}
        self._control = {token: self.encode(token, parse_control_tokens=True)[0] for token in CONTROL_TOKENS}
        self._names = {token_id: token.encode() for token, token_id in self._control.items()}
        self._by_bytes = {data: index for index, data in enumerate(self.vocabulary.token_bytes) if data}

    def say(self, *scripts: str, split: random.Random | None = None) -> None:
        """Say a text from now on; further ones for where something else was written into the context."""
        self.scripts, self.split, self._cuts = tuple(script.encode() for script in scripts), split, {}

    @override
    def new_request(self, sequence: CachedSequence, *args: Any, **options: Any) -> Request:
        request = super().new_request(sequence, *args, **options)
        is_new = sequence not in self._starts
        start = self._starts.setdefault(sequence, len(sequence))
        if self.scripts and is_new and self._ends_with_call(sequence):
            # Asked whether another call follows calls that the script is not of.
            request.logits_processor = lambda ids, logits: self._end(logits)
        elif self.scripts:
            request.logits_processor = lambda ids, logits: self._steer(ids[0, start:].tolist(), logits)
            request.drafter = None
        return request

    def _ends_with_call(self, sequence: CachedSequence) -> bool:
        return self.decode(list(sequence.token_ids)[-8:]).endswith("</tool_call>\n")

    def _end(self, logits: torch.Tensor) -> torch.Tensor:
        logits[0, self._control["<|im_end|>"]] = logits.abs().max() + 100
        return logits

    def _steer(self, said_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        said = b"".join(self._names.get(id_, self.vocabulary.token_bytes[id_]) for id_ in said_ids)
        script = next((script for script in self.scripts if script.startswith(said)), said)
        token_id = self._next(script, len(said)) if script != said else self._control["<|im_end|>"]
        logits[0, token_id] = logits.abs().max() + 100
        return logits

    def _next(self, script: bytes, position: int) -> int:
        """Return a token that the script goes on with: a control token, or a piece of any length."""
        for name, token_id in self._control.items():
            if script.startswith(name.encode(), position):
                return token_id
        control = re.search(b"|".join(re.escape(name.encode()) for name in self._control), script[position:])
        rest = script[position : position + control.start()] if control else script[position:]
        sizes = [size for size in range(1, min(len(rest), 24) + 1) if rest[:size] in self._by_bytes]
        place = (script, position)
        if place not in self._cuts:
            self._cuts[place] = self.split.choice(sizes) if self.split is not None else sizes[-1]
        return self._by_bytes[rest[: self._cuts[place]]]
