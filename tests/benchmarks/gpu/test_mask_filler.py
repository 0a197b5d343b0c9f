import pytest
import torch
from benchmarks.gpu.grammar_filler import GrammarFiller, made_up_vocabulary
from benchmarks.gpu.mask_filler import NumpyFiller

from sureact.constraints.token_bitmask import read_token_ids


@pytest.mark.parametrize("num_ids", [30, 160, 300])
def test_every_row_allows_as_many_ids_and_others_at_each_step(num_ids: int) -> None:
    fill = NumpyFiller(2, 300, num_ids)
    first = fill().clone()
    assert first.shape == (2, 10)
    assert first.dtype is torch.int32
    second = fill()
    for masks in (first, second):
        for row in range(2):
            ids = read_token_ids(masks, row)
            assert len(ids) == num_ids
            assert max(ids) < 300
    assert torch.equal(first, second) == (num_ids == 300)


def test_a_grammar_follows_what_was_picked() -> None:
    fill = GrammarFiller(2, 400)
    for _ in range(60):
        allowed = [read_token_ids(fill(), row) for row in range(2)]
        assert all(allowed)
        fill.accept([ids[0] for ids in allowed])


def test_a_made_up_vocabulary_has_every_byte_and_an_end() -> None:
    vocabulary = made_up_vocabulary(400)
    assert vocabulary.num_logits == 400
    assert len(set(vocabulary.token_bytes)) == 400
    assert vocabulary.eos_ids == (399,)
