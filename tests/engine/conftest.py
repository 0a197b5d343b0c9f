"""Tiny random checkpoints of every family, made by transformers, with a tokenizer of bytes, and a scripted guard."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from sureact.constraints.constraint import CompiledConstraint, Constraint, ConstraintState
from sureact.constraints.token_bitmask import write_token_ids
from sureact.distributed.communicator import Communicator, connect, join_store, open_store
from sureact.distributed.shard import Shard
from sureact.engine import Engine
from sureact.tokens.vocabulary import Vocabulary

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
VOCAB_SIZE = 288
"""256 bytes, five control tokens, and unused rows."""

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": None,
    # Wide enough that the logits of a random model are far apart, so that rounding cannot flip a token.
    "initializer_range": 0.3,
}

CheckpointMaker = Callable[..., Path]


def write_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer without merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> CheckpointMaker:
    """Return a function that writes a random checkpoint of a family; options go to its transformers config."""

    def make(family: str, seed: int = 0, **options: Any) -> Path:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        folder = tmp_path_factory.mktemp(family)
        torch.manual_seed(seed)
        config = AutoConfig.for_model(family, **{**SIZES, **options})
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(folder)
        write_tokenizer(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_folder(make_checkpoint: CheckpointMaker) -> Path:
    """A tiny Qwen2 checkpoint."""
    return make_checkpoint("qwen2")


@pytest.fixture(scope="session")
def tiny_engine(tiny_folder: Path) -> Iterator[Engine]:
    """An engine in float32 over the tiny checkpoint, with a cache of 60 blocks."""
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine:
        yield engine


@dataclass(frozen=True)
class FiniteConstraint(Constraint, CompiledConstraint):
    """One of `valid`, under a mask that offers every text of `offered` and a guard that judges whole texts only.

    So a text is known to be wrong at its last token, and whoever wrote it has to go back.
    """

    offered: frozenset[bytes]
    valid: frozenset[bytes]
    vocabulary: Vocabulary | None = None
    forces_text: bool = False
    """Whether text is said to be forced where one way on is offered."""

    @cached_property
    def starts(self) -> frozenset[bytes]:
        return frozenset(text[:n] for text in self.offered for n in range(1, len(text) + 1))

    @property
    def cache_key(self) -> str:
        return repr((sorted(self.offered), sorted(self.valid)))

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return replace(self, vocabulary=vocabulary)

    def new_state(self) -> ConstraintState:
        assert self.vocabulary is not None
        return FiniteState(self, self.vocabulary)


@dataclass
class FiniteState(ConstraintState):
    """A position in a `FiniteConstraint`."""

    language: FiniteConstraint
    vocabulary: Vocabulary
    accepted: list[int] = field(default_factory=list[int])
    dead: set[bytes] = field(default_factory=set[bytes])

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        ends = self.vocabulary.eos_ids if self.text in self.language.offered else ()
        texts = enumerate(self.vocabulary.token_bytes)
        write_token_ids(bitmask, row, [*ends, *(i for i, token in texts if token and self._is_offered(token))])

    def check_token(self, token_id: int) -> bool:
        if token_id in self.vocabulary.eos_ids:
            return self.is_accepting
        token = self.vocabulary.token_bytes[token_id]
        text = self.text + token
        is_whole = text in self.language.offered
        return self._is_offered(token) and text not in self.dead and (not is_whole or text in self.language.valid)

    def accept_token(self, token_id: int) -> None:
        assert self.check_token(token_id)
        self.accepted.append(token_id)

    def rollback(self, num_tokens: int) -> None:
        del self.accepted[len(self.accepted) - num_tokens :]

    def forced_tokens(self) -> list[int]:
        ahead = FiniteState(self.language, self.vocabulary, list(self.accepted), self.dead)
        while self.language.forces_text and not ahead.is_terminated:
            ways = [i for i, token in enumerate(self.vocabulary.token_bytes) if token and ahead._is_offered(token)]
            if len(ways) != 1 or ahead.text in self.language.offered or not ahead.check_token(ways[0]):
                break
            ahead.accept_token(ways[0])
        return ahead.accepted[len(self.accepted) :]

    def fork(self) -> ConstraintState:
        return FiniteState(self.language, self.vocabulary, list(self.accepted), set(self.dead))

    def mark_dead_end(self) -> None:
        self.dead.add(self.text)

    @property
    def num_settled_tokens(self) -> int:
        """Tokens are bytes; nobody comes back from where a valid text can still be found."""
        text = self.text
        starts = range(len(text), -1, -1)
        return next((n for n in starts if any(valid.startswith(text[:n]) for valid in self.language.valid)), 0)

    @property
    def is_accepting(self) -> bool:
        return self.text in self.language.valid

    @property
    def is_terminated(self) -> bool:
        return self.is_accepting

    @property
    def text(self) -> bytes:
        return b"".join(self.vocabulary.token_bytes[token_id] for token_id in self.accepted)

    def _is_offered(self, token: bytes) -> bool:
        return self.text + token in self.language.starts


FiniteConstraintMaker = Callable[..., FiniteConstraint]


@pytest.fixture(scope="session")
def finite_constraint() -> FiniteConstraintMaker:
    """Return a function that makes a constraint of offered and of valid texts; of valid ones alone, an exact one."""

    def make(valid: set[bytes], offered: set[bytes] | None = None, *, forces_text: bool = False) -> FiniteConstraint:
        return FiniteConstraint(frozenset((offered or set()) | valid), frozenset(valid), forces_text=forces_text)

    return make


class OnTwoRanks(Protocol):
    """Runs work as each of two ranks."""

    def __call__(self, work: Callable[[Communicator], Any], timeout_s: float = 20.0) -> list[Any]: ...


@pytest.fixture
def on_two_ranks() -> OnTwoRanks:
    """Return a function that runs `work(communicator)` as each of two ranks, in threads, and returns what they did.

    What a rank raised is among the results.
    """

    def run(work: Callable[[Communicator], Any], timeout_s: float = 20.0) -> list[Any]:
        store, port = open_store(timeout_s)

        def rank(shard: Shard) -> Any:
            own_store = store if shard.rank == 0 else join_store(port, timeout_s)
            communicator = connect(own_store, shard, torch.device("cpu"), timeout_s)
            try:
                return work(communicator)
            except Exception as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(rank, Shard(0, 2).all()))

    return run
