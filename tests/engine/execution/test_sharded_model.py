"""A model in two parts computes what the whole one does, and a part that fails does not make the other wait."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.config import BLOCK_SIZE, EngineConfig
from sureact.distributed.communicator import Communicator
from sureact.distributed.shard import Shard
from sureact.execution.load_shard_model import load_part
from sureact.execution.shard_orders import PassInputs
from sureact.execution.sharded_model import ShardedModel
from sureact.kv_cache.storage import KVStorage
from sureact.models.registry import build_model
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config

OnTwoRanks = Callable[[Callable[[Communicator], Any]], list[Any]]
CheckpointMaker = Callable[..., Path]
CPU = torch.device("cpu")
INPUTS = PassInputs(
    token_ids=[7, 8, 9, 250, 11, 12],
    positions=[0, 1, 2, 0, 1, 2],
    slots=[0, 1, 2, BLOCK_SIZE, BLOCK_SIZE + 1, BLOCK_SIZE + 2],
    query_lens=[3, 3],
    context_lens=[3, 3],
    block_tables=[[0], [1]],
    picked_rows=[2, 5],
    is_invariant=True,
)
ALL = torch.full((2, 9), -1, dtype=torch.int32)


def part_of(folder: Path, communicator: Communicator) -> ShardedModel:
    config = EngineConfig(model=str(folder), quantization="none", dtype="float32", kv_cache_gb=0.001)
    part = load_part(folder, config, communicator.shard, CPU)
    return part.assemble(3, 256, communicator)


def whole_logits(folder: Path) -> torch.Tensor:
    config = read_model_config(folder)
    tensors = load_weights(folder, config, dtype=torch.float32, quantization="none", device=CPU)
    storage = KVStorage(
        num_layers=config.num_layers,
        num_blocks=3,
        num_kv_heads=config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=config.head_dim,
        dtype=torch.float32,
        device=CPU,
    )
    model = build_model(config, tensors, 256)
    hidden = model.forward(torch.tensor(INPUTS.token_ids), INPUTS.metadata(CPU), storage.layers)
    return model.logits(hidden[INPUTS.picked_rows])


MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"head_dim": 16}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("qwen3_moe", MOE),
    ],
)
def test_logits_and_likeliest_are_those_of_the_whole(
    make_checkpoint: CheckpointMaker, on_two_ranks: OnTwoRanks, family: str, settings: dict[str, Any]
) -> None:
    folder = make_checkpoint(family, **settings)

    def work(ranks: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
        model = part_of(folder, ranks)
        hidden = model.blocks(INPUTS)
        return model.logits(hidden), model.likeliest(hidden, ALL)

    expected = whole_logits(folder)
    (logits, best), others = on_two_ranks(work)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert best[:, 1].tolist() == expected.argmax(1).tolist()
    assert torch.equal(best[:, 0].float(), logits.max(1).values)
    assert torch.equal(logits, others[0])
    assert torch.equal(best, others[1])


def test_the_likeliest_is_allowed_and_of_equal_ones_the_first(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    masks = torch.zeros(2, 9, dtype=torch.int32)
    masks[0, 4] = 1 << 3
    masks[1, 8] = 1 << 5

    def work(ranks: Communicator) -> Any:
        model = part_of(tiny_folder, ranks)
        hidden = model.blocks(INPUTS)
        alike = torch.zeros_like(hidden)
        nothing = torch.zeros_like(masks)
        return tuple(model.likeliest(x, m).tolist() for x, m in ((hidden, masks), (alike, ALL), (hidden, nothing)))

    allowed, alike, nothing = on_two_ranks(work)[0]
    assert [token_id for _, token_id in allowed] == [4 * 32 + 3, 8 * 32 + 5]
    assert alike == [[0.0, 0.0], [0.0, 0.0]]
    assert [value for value, _ in nothing] == [-torch.inf, -torch.inf]


def test_a_logit_that_is_nan_is_told(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> torch.Tensor:
        model = part_of(tiny_folder, ranks)
        hidden = model.blocks(INPUTS).clone()
        hidden[1] = torch.nan
        return model.likeliest(hidden, ALL)

    best = on_two_ranks(work)[0]
    assert best[:, 0].isnan().tolist() == [False, True]


def test_a_row_has_the_same_bits_alone_and_beside_others(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    alone = PassInputs(
        token_ids=INPUTS.token_ids[3:],
        positions=INPUTS.positions[3:],
        slots=INPUTS.slots[3:],
        query_lens=[3],
        context_lens=[3],
        block_tables=[[1]],
        picked_rows=[2],
        is_invariant=True,
    )

    def work(ranks: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
        model = part_of(tiny_folder, ranks)
        return model.logits(model.blocks(INPUTS)), model.logits(model.blocks(alone))

    together, single = on_two_ranks(work)[0]
    assert torch.equal(together[1:], single)


@pytest.mark.parametrize("failing_part", ["attention", "mlp"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_part_that_fails_ends_its_pass_beside_the_other_and_goes_on_with_the_next(
    tiny_folder: Path, on_two_ranks: OnTwoRanks, failing_part: str, rank: int
) -> None:
    class Failing:
        def __call__(self, *_: object, **__: object) -> torch.Tensor:
            raise RuntimeError("not enough memory")

    def work(ranks: Communicator) -> tuple[torch.Tensor, Exception | None, torch.Tensor]:
        model = part_of(tiny_folder, ranks)
        good = model.logits(model.blocks(INPUTS))
        attention = model._model.blocks[1].attention  # pyright: ignore[reportPrivateUsage]
        mlp = model._model.blocks[1].mlp  # pyright: ignore[reportPrivateUsage]
        owner, name = (attention, "qkv") if failing_part == "attention" else (mlp, "down")
        kept = getattr(owner, name)
        if ranks.shard.rank == rank:
            setattr(owner, name, Failing())
        bad = model.logits(model.blocks(INPUTS))
        setattr(owner, name, kept)
        assert bad.isnan().all()
        error = model.take_error()
        assert not model.has_error
        return good, error, model.logits(model.blocks(INPUTS))

    results = on_two_ranks(work)
    for index, (good, error, again) in enumerate(results):
        assert (str(error) if error else None) == ("not enough memory" if index == rank else None)
        assert torch.equal(good, again)


def test_a_head_that_fails_keeps_the_other_from_waiting(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> Any:
        model = part_of(tiny_folder, ranks)
        hidden = model.blocks(INPUTS)
        if ranks.shard == Shard(1, 2):
            hidden = hidden[:, :-1]
        return model.likeliest(hidden, ALL)[:, 0].isnan().all(), model.logits(hidden).shape, model.has_error

    first, second = on_two_ranks(work)
    assert first == (True, (2, 288), False)
    assert second == (True, (2, 288), True)


def test_blocks_are_copied_and_cleared(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    def work(ranks: Communicator) -> list[float]:
        model = part_of(tiny_folder, ranks)
        model.blocks(INPUTS)
        keys = model._storage.layers[1][0]  # pyright: ignore[reportPrivateUsage]
        model.copy_blocks([(0, 2)])
        assert torch.equal(keys[2], keys[0])
        model.clear_blocks([0])
        model.close()
        return [float(keys[0].abs().sum()), float(keys[2].abs().sum())]

    for cleared, copied in on_two_ranks(work):
        assert cleared == 0 < copied


def test_its_matrices_are_half_of_the_whole(tiny_folder: Path, on_two_ranks: OnTwoRanks) -> None:
    halves = on_two_ranks(lambda ranks: part_of(tiny_folder, ranks).weight_bytes_per_token)
    config = read_model_config(tiny_folder)
    tensors = load_weights(tiny_folder, config, dtype=torch.float32, quantization="none", device=CPU)
    assert sum(halves) == build_model(config, tensors, 256).weight_bytes_per_token
