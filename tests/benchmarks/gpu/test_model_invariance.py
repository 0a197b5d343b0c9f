from collections.abc import Sequence

import pytest
import torch
from benchmarks.gpu import model_invariance as module
from benchmarks.gpu.decoder import Decoder
from benchmarks.gpu.model_invariance import ModelChecks, tokens_of_checks
from benchmarks.gpu.passes import Stretch, last_logits, run_pass
from benchmarks.gpu.random_model import RandomModel

from sureact.models.causal_lm import LayerCache


def one_place_too_far(made: RandomModel, layers: Sequence[LayerCache], stretches: Sequence[Stretch]) -> torch.Tensor:
    return run_pass(made, layers, [stretch._replace(start=stretch.start + 1) for stretch in stretches])


@pytest.fixture
def checks(tiny: RandomModel) -> ModelChecks:
    decoder = Decoder(tiny, max_rows=3, max_tokens=tokens_of_checks(150), max_model_len=256, num_spare=1)
    return ModelChecks(decoder, 150, (1, 3))


def test_a_model_whose_logits_follow_the_batch_is_found(checks: ModelChecks, monkeypatch: pytest.MonkeyPatch) -> None:
    def logits(*args: object) -> torch.Tensor:
        found = last_logits(*args)  # pyright: ignore[reportArgumentType]
        return found * (1 + 1e-6 * len(found))

    monkeypatch.setattr(module, "last_logits", logits)
    by_name = {name: compare().num_elements for name, compare in checks}
    assert by_name["3 rows, mixed"] > 0
    assert by_name["3 rows, of the same prompt"] > 0


def test_a_chunk_at_a_wrong_place_is_found(checks: ModelChecks, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = dict(checks)["prompt in chunks of 16"]
    assert compare().num_elements == 0
    monkeypatch.setattr(module, "run_pass", one_place_too_far)
    assert compare().num_elements > 0


def test_all_forms_of_company_are_checked(checks: ModelChecks) -> None:
    names = [name for name, _ in checks]
    assert len(names) == len(set(names))
    for wanted in ("rows, mixed", "chunks of 1", "together", "drafted", "cache", "graph of 3"):
        assert any(wanted in name for name in names), wanted
