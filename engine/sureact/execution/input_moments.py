"""What each matrix of a model gets to see: second moments of its inputs over a short text, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

import torch

from sureact.config import BLOCK_SIZE
from sureact.kv_cache.storage import KVStorage
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.layers.linear import Linear
from sureact.models.causal_lm import CausalLM, Weights
from sureact.models.registry import FAMILIES
from sureact.weights.parameter_names import ParameterSource
from sureact.weights.quantized_cache import InputMoments, merged_tensor
from sureact_kernels.embedding import embedding
from sureact_kernels.linear import DenseWeight, LinearWeight

if TYPE_CHECKING:
    from sureact.tokens.tokenizer import Tokenizer
    from sureact.weights.checkpoint import Checkpoint
    from sureact.weights.model_config import ModelConfig

_PASS_LEN = 1024
"""Tokens that are in memory as activations of all kinds at once."""

_BLOCK_COLUMNS = 1024
"""Columns of second moments that are computed together."""

_MOST_TOKENS = 10_000
"""Tokens of the calibration text that are used; a tokenizer of few words makes many more of it."""

_LAYER = "layers.0"
"""What the one layer of a model that has one is called."""


def moments_of(
    config: ModelConfig, tokenizer: Tokenizer, progress: Callable[[str], None] | None = None
) -> InputMoments:
    """Return what int4 weights of a model are rounded for: the moments over the calibration texts.

    Args:
        config: of the model.
        tokenizer: of the model.
        progress: told of each layer.
    """

    def moments(checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]) -> Iterator[tuple[str, torch.Tensor]]:
        return input_moments(checkpoint, config, sources, calibration_ids(tokenizer), progress)

    return moments


def calibration_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the calibration texts, one after another: code, JSON, prose, and chats in the model's own template.

    Without a chat template the chats are left out.
    """
    lines = files("sureact.execution").joinpath("calibration.jsonl").read_text(encoding="utf-8").splitlines()
    token_ids: list[int] = []
    for record in map(json.loads, lines):
        if "text" in record:
            token_ids += tokenizer.encode(record["text"])
        elif tokenizer.chat_template is not None:
            prompt = tokenizer.chat_template.render(record["messages"], add_generation_prompt=False)
            token_ids += tokenizer.encode_prompt(prompt)
    return token_ids[:_MOST_TOKENS]


def input_moments(
    checkpoint: Checkpoint,
    config: ModelConfig,
    sources: Mapping[str, ParameterSource],
    token_ids: Sequence[int],
    progress: Callable[[str], None] | None = None,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Run a text through a model in bfloat16 and yield what its matrices get, a layer at a time.

    One layer's weights are in memory at once. The text is cut into stretches that do not see each other.

    Args:
        checkpoint: holds the weights.
        config: of the model.
        sources: of its parameters.
        token_ids: the text.
        progress: told of each layer.

    Yields:
        Our name of a matrix, and `[in_features, in_features]`, float32: the mean of `x x^T` over its inputs.
    """
    stretches = [_Stretch(token_ids[i : i + _PASS_LEN]) for i in range(0, len(token_ids), _PASS_LEN)]
    shared = {name: merged_tensor(checkpoint, sources[name]).to(torch.bfloat16) for name in ("embedding", "final_norm")}
    for index in range(config.num_layers):
        if progress is not None:
            progress(f"Rounding to int4, once: layer {index + 1} of {config.num_layers}")
        weights = _RecordingWeights({**shared, **_layer_tensors(checkpoint, sources, index)})
        model = _one_layer_model(config, weights, index)
        with torch.inference_mode(), _bfloat16_products():
            for stretch in stretches:
                stretch.run(model)
                if index == config.num_layers - 1:
                    weights.record("lm_head", stretch.final_hidden(model))
        for name, moments in weights.moments().items():
            yield name.replace(_LAYER, f"layers.{index}", 1), moments


class _Stretch:
    """A piece of text on its way through the layers."""

    def __init__(self, token_ids: Sequence[int]) -> None:
        self._token_ids = torch.tensor(token_ids)
        self._metadata = AttentionMetadata(
            positions=torch.arange(len(token_ids)),
            slot_mapping=torch.arange(len(token_ids)),
            block_tables=torch.arange(-(-len(token_ids) // BLOCK_SIZE))[None],
            context_lens=(len(token_ids),),
            query_lens=(len(token_ids),),
            is_invariant=False,
        )
        self._x: torch.Tensor | None = None
        self._residual: torch.Tensor | None = None

    def run(self, model: CausalLM) -> None:
        """Go through the one layer of `model`."""
        config = model.config
        context = self._metadata.context(
            model.rotary, block_size=BLOCK_SIZE, group=config.num_q_heads // config.num_kv_heads
        )
        x = embedding(self._token_ids, model.embedding) if self._x is None else self._x
        key_cache, value_cache = _layer_cache(config, len(self._token_ids))
        self._x, self._residual = model.blocks[0](x, self._residual, key_cache, value_cache, context)

    def final_hidden(self, model: CausalLM) -> torch.Tensor:
        """Return what the head gets, once the stretch has gone through all layers."""
        assert self._x is not None, "the stretch has not begun"
        assert self._residual is not None, "the stretch has not begun"
        return model.final_norm.add(self._x, self._residual)[0]


class _RecordingWeights(Weights):
    """Weights whose matrices add up the second moments of what they are multiplied with."""

    def __init__(self, tensors: dict[str, torch.Tensor | LinearWeight]) -> None:
        super().__init__(tensors)
        self._sums: dict[str, torch.Tensor] = {}
        self._num_rows: dict[str, int] = {}

    def linear(self, name: str) -> Linear:
        """Return a matrix that records."""
        plain = super().linear(name)
        return _RecordingLinear(plain.weight, plain.bias, partial(self.record, name))

    def record(self, name: str, x: torch.Tensor) -> None:
        """Add inputs `[num_tokens, in_features]` but the first: models park attention on the first token of a text.

        Its activations are hundreds of times as large as those of any other and would be all that counts.
        """
        inputs = x[1:].float()
        if name not in self._sums:
            self._sums[name] = torch.zeros(x.shape[1], x.shape[1])
        # What lies above the diagonal follows by symmetry.
        for start in range(0, x.shape[1], _BLOCK_COLUMNS):
            block = slice(start, start + _BLOCK_COLUMNS)
            self._sums[name][start:, block].addmm_(inputs[:, start:].T, inputs[:, block])
        self._num_rows[name] = self._num_rows.get(name, 0) + len(inputs)

    def moments(self) -> dict[str, torch.Tensor]:
        """Return the mean of `x x^T` by name, for every matrix that was used; an expert may not have been."""
        return {
            name: (total.tril() + total.tril(-1).T) / max(1, self._num_rows[name]) for name, total in self._sums.items()
        }


class _RecordingLinear(Linear):
    """A matrix that shows its inputs to somebody."""

    __slots__ = ("_record",)

    def __init__(self, weight: LinearWeight, bias: torch.Tensor | None, record: Callable[[torch.Tensor], None]) -> None:
        super().__init__(weight, bias)
        self._record = record

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Show `x` and map it as any linear layer does."""
        self._record(x)
        return super().__call__(x, invariant=invariant)


def _layer_tensors(
    checkpoint: Checkpoint, sources: Mapping[str, ParameterSource], index: int
) -> dict[str, torch.Tensor | LinearWeight]:
    """Return one layer's parameters as layer 0, in bfloat16, and in the place of the head, which is not used, a row."""
    prefix = f"layers.{index}."
    tensors: dict[str, torch.Tensor | LinearWeight] = {}
    for name, source in sources.items():
        if name.startswith(prefix):
            tensor = merged_tensor(checkpoint, source).to(torch.bfloat16)
            own_name = name.replace(prefix, f"{_LAYER}.", 1)
            tensors[own_name] = tensor if source.role == "plain" else DenseWeight(tensor)
    hidden_size = sources["final_norm"].shape[0]
    return tensors | {"lm_head": DenseWeight(torch.zeros(1, hidden_size, dtype=torch.bfloat16))}


def _one_layer_model(config: ModelConfig, weights: Weights, index: int) -> CausalLM:
    """Build a model whose only layer is layer `index` of the real one."""
    moe = config.moe
    if moe is not None:
        moe = replace(moe, sparse_layer_indices=frozenset({0} if index in moe.sparse_layer_indices else ()))
    return FAMILIES[config.family](replace(config, num_layers=1, moe=moe), weights, _PASS_LEN)


def _layer_cache(config: ModelConfig, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    storage = KVStorage(
        num_layers=1,
        num_blocks=-(-num_tokens // BLOCK_SIZE),
        num_kv_heads=config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=config.head_dim,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    return storage.layers[0]


@contextmanager
def _bfloat16_products() -> Generator[None]:
    """Let float32 products of numbers that bfloat16 holds exactly use its instructions: the sums stay in float32."""
    settings = torch.backends.mkldnn.matmul  # pyright: ignore[reportAttributeAccessIssue]  made at run time
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before
