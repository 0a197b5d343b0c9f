import pytest
import torch
from benchmarks.gpu.decode import wrong_picks
from benchmarks.gpu.decoder import Decoder
from benchmarks.gpu.mask_filler import NumpyFiller
from benchmarks.gpu.random_model import RandomModel
from benchmarks.gpu.report import PartReport


def always_the_same(decoder: Decoder, num_steps: int) -> list[list[int]]:
    return [[1, 2]] * num_steps


@pytest.fixture
def decoder(tiny: RandomModel) -> Decoder:
    return Decoder(tiny, max_rows=2, max_tokens=140, max_model_len=256, num_spare=1)


def test_free_steps_pick_what_single_calls_pick(decoder: Decoder) -> None:
    expected = decoder.eager(decoder.start(2, 125), 6)  # into the second block
    decoder.start(2, 125)
    assert decoder.free(6) == expected


def test_masked_steps_go_on_from_what_they_pick(decoder: Decoder) -> None:
    expected = decoder.eager(decoder.start(1, 30), 3)
    picked: list[list[int]] = []
    rows = decoder.masked(decoder.start(1, 30), 3, NumpyFiller(1, 320, 320), picked.append)
    assert picked == expected
    assert [(list(row.token_ids), row.start) for row in rows] == [(expected[-1], 32)]


def test_masks_are_obeyed(decoder: Decoder) -> None:
    only = torch.zeros(2, 10, dtype=torch.int32)
    only[0, 2] = only[1, 3] = 1
    picked: list[list[int]] = []
    decoder.masked(decoder.start(2, 30), 2, lambda: only, picked.append)
    assert picked == [[64, 96]] * 2


def test_graphs_that_pick_other_tokens_fail_and_mark_the_figure(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = PartReport("decode", seconds=60)
    assert wrong_picks(report, decoder, 2, 20) == ""
    monkeypatch.setattr(Decoder, "free", always_the_same)
    assert wrong_picks(report, decoder, 2, 20).startswith("WRONG")
    assert report.failures[0]["case"] == "tiny, batch 2"
