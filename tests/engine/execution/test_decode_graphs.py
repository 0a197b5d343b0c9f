"""Steps that feed themselves pick what whole passes pick, on a CPU, where they run without being recorded."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sureact.config import BLOCK_SIZE, EngineConfig
from sureact.errors import OutOfMemoryError
from sureact.execution import decode_graphs
from sureact.execution.decode_buffers import DecodeRow
from sureact.execution.decode_graphs import MOST_ROWS, DecodeGraphs
from sureact.execution.loaded_model import load_model
from sureact.execution.model_runner import PagedModelRunner
from sureact.kv_cache.storage import KVStorage
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.models.causal_lm import CausalLM

NUM_BLOCKS, DUMMY, MAX_LEN = 12, 12, 3 * BLOCK_SIZE
PROMPTS = [[5, 6, 7], list(range(120)), [9] * 128, [1]]
TABLES = [[3, 0, 1], [4, 11, 2], [5, 6, 7], [8, 9, 10]]
ANY = torch.full((len(PROMPTS), 288 // 32), -1, dtype=torch.int32)


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> CausalLM:
    loaded = load_model(EngineConfig(model=str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.001))
    assert isinstance(loaded.runner, PagedModelRunner)
    return loaded.runner.model


@pytest.fixture
def storage(model: CausalLM) -> KVStorage:
    """A cache that holds all but the last token of each prompt."""
    config = model.config
    storage = KVStorage(
        num_layers=config.num_layers,
        num_blocks=NUM_BLOCKS + 1,
        num_kv_heads=config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=config.head_dim,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    for prompt, table in zip(PROMPTS, TABLES, strict=True):
        if len(prompt) > 1:
            compute(model, storage, prompt[:-1], table)
    return storage


@pytest.fixture
def graphs(model: CausalLM, storage: KVStorage) -> DecodeGraphs:
    return DecodeGraphs(
        model, storage.layers, block_size=BLOCK_SIZE, dummy_block=DUMMY, max_rows=4, max_model_len=MAX_LEN
    )


@torch.inference_mode()
def compute(model: CausalLM, storage: KVStorage, token_ids: list[int], table: list[int]) -> torch.Tensor:
    """Run a whole sequence and return the logits behind its last token."""
    length = len(token_ids)
    slots = [table[i // BLOCK_SIZE] * BLOCK_SIZE + i % BLOCK_SIZE for i in range(length)]
    metadata = AttentionMetadata(
        positions=torch.arange(length),
        slot_mapping=torch.tensor(slots),
        block_tables=torch.tensor([table]),
        context_lens=(length,),
        query_lens=(length,),
        is_invariant=True,
    )
    return model.logits(model.forward(torch.tensor(token_ids), metadata, storage.layers)[-1:])[0]


def rows(*indices: int) -> list[DecodeRow]:
    return [DecodeRow(PROMPTS[i][-1], len(PROMPTS[i]) - 1, TABLES[i]) for i in indices]


def expected(model: CausalLM, storage: KVStorage, index: int, num_tokens: int) -> list[int]:
    """Pick token after token, computing everything anew each time."""
    token_ids = list(PROMPTS[index])
    for _ in range(num_tokens):
        token_ids.append(int(compute(model, storage, token_ids, TABLES[index]).argmax()))
    return token_ids[len(PROMPTS[index]) :]


@pytest.mark.parametrize("indices", [(0,), (1,), (0, 1, 2), (3, 2, 1, 0)])
def test_free_steps_pick_what_whole_passes_pick(
    indices: tuple[int, ...], model: CausalLM, storage: KVStorage, graphs: DecodeGraphs
) -> None:
    graphs.load(rows(*indices), ANY[: len(indices)])
    picked = [graphs.step().wait() for _ in range(12)]
    assert [list(of_row) for of_row in zip(*picked, strict=True)] == [
        expected(model, storage, index, 12) for index in indices
    ]


def test_a_step_may_be_launched_before_the_one_before_it_is_read(graphs: DecodeGraphs) -> None:
    graphs.load(rows(0, 1), ANY[:2])
    one_by_one = [graphs.step().wait() for _ in range(3)]
    graphs.load(rows(0, 1), ANY[:2])
    first, second = graphs.step(), graphs.step()
    assert [first.wait(), second.wait(), graphs.step().wait()] == one_by_one


def test_masked_steps_give_the_logits_of_a_whole_pass_and_pick_what_the_mask_allows(
    model: CausalLM, storage: KVStorage, graphs: DecodeGraphs
) -> None:
    masks = torch.zeros(2, 9, dtype=torch.int32)
    masks[0, 1] = 0b1010
    masks[1] = -1
    graphs.load(rows(1, 2))
    called: list[bool] = []
    logits, picks = graphs.step_masked(lambda: called.append(True) or masks)
    wholes = [compute(model, storage, PROMPTS[index], TABLES[index]) for index in (1, 2)]
    assert called == [True]
    assert torch.equal(logits, torch.stack(wholes))
    assert picks.wait() == [33 if wholes[0][33] >= wholes[0][35] else 35, int(wholes[1].argmax())]


def test_rows_of_one_sequence_are_a_draft(model: CausalLM, storage: KVStorage, graphs: DecodeGraphs) -> None:
    draft = [17, 18]
    token_ids = [*PROMPTS[0], *draft]
    graphs.load([DecodeRow(token_ids[i], i, TABLES[0]) for i in range(2, 5)])
    logits, _ = graphs.step_masked(lambda: ANY[:3])
    for row, end in enumerate(range(3, 6)):
        assert torch.equal(logits[row], compute(model, storage, token_ids[:end], TABLES[0]))


def test_recording_all_leaves_the_cache_alone(storage: KVStorage, graphs: DecodeGraphs) -> None:
    before = [(keys[:NUM_BLOCKS].clone(), values[:NUM_BLOCKS].clone()) for keys, values in storage.layers]
    told: list[str] = []
    graphs.capture(told.append)
    graphs.load([], ANY[:0])
    graphs.step().wait()
    assert told[-1] == f"Recording decode steps: {graphs.num_keys} of {graphs.num_keys}"
    assert len(told) == graphs.num_keys == 9  # free and masked steps of 1, 2 and 4 rows, all of one length of context
    for (keys, values), (kept_keys, kept_values) in zip(storage.layers, before, strict=True):
        assert torch.equal(keys[:NUM_BLOCKS], kept_keys)
        assert torch.equal(values[:NUM_BLOCKS], kept_values)


def test_too_little_memory_is_told_with_numbers(graphs: DecodeGraphs, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs.check_memory()
    no_memory: Callable[[torch.device], int] = lambda _: 1000  # noqa: E731
    monkeypatch.setattr(decode_graphs, "free_bytes", no_memory)
    with pytest.raises(OutOfMemoryError, match=r"need about 0\.00 GB on cpu; 0\.00 GB are free"):
        graphs.check_memory()


def test_recordings_come_in_few_shapes(model: CausalLM, storage: KVStorage) -> None:
    graphs = DecodeGraphs(
        model, storage.layers, block_size=BLOCK_SIZE, dummy_block=DUMMY, max_rows=MOST_ROWS, max_model_len=32768
    )
    # Seven numbers of rows; contexts of 1,024, 4,096, 16,384 and 32,768, with and without head; heads alone.
    assert graphs.num_keys == 7 * (4 * 2 + 1)
