import math
from pathlib import Path

import pytest
import torch
from benchmarks.quality.teacher_forcing import ReferenceText, Scores, score

from sureact.engine import Engine
from sureact.models.causal_lm import CausalLM
from sureact.models.registry import build_model
from sureact.sampling_params import SamplingParams
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config

PROMPTS = ([10, 20, 30], [10, 20, 31, 40], [50] * 200)


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> CausalLM:
    config = read_model_config(tiny_folder)
    cpu = torch.device("cpu")
    return build_model(
        config, load_weights(tiny_folder, config, dtype=torch.float32, quantization="none", device=cpu), 512
    )


@pytest.fixture(scope="module")
def greedy_texts(tiny_engine: Engine) -> list[ReferenceText]:
    outputs = tiny_engine.generate([list(ids) for ids in PROMPTS], SamplingParams(max_tokens=12, ignore_eos=True))
    return [ReferenceText(list(ids), list(output.token_ids)) for ids, output in zip(PROMPTS, outputs, strict=True)]


def test_a_model_agrees_with_its_own_greedy_text(model: CausalLM, greedy_texts: list[ReferenceText]) -> None:
    found = score(model, torch.float32, greedy_texts)
    own = [token_id for text in greedy_texts for token_id in text.continuation_ids]
    # The engine does not pick ids that the tokenizer has no token for; this random model likes some.
    assert all(pick in (mine, *range(261, 288)) for pick, mine in zip(found.picks, own, strict=True))
    assert len(found.log_probs) == 36


def test_texts_that_begin_alike_score_as_they_do_alone(model: CausalLM, greedy_texts: list[ReferenceText]) -> None:
    together = score(model, torch.float32, greedy_texts)
    alone = [score(model, torch.float32, [text]) for text in greedy_texts]
    assert together.picks == [pick for scores in alone for pick in scores.picks]
    assert together.log_probs == pytest.approx([value for scores in alone for value in scores.log_probs])


def test_the_text_itself_is_scored_and_not_the_pick(model: CausalLM, greedy_texts: list[ReferenceText]) -> None:
    text = greedy_texts[0]
    other = [(text.continuation_ids[0] + 1) % 250, *text.continuation_ids[1:]]
    found = score(model, torch.float32, [ReferenceText(text.prompt_ids, other)])
    assert found.picks[0] == text.continuation_ids[0]
    assert found.log_probs[0] < score(model, torch.float32, [text]).log_probs[0]


def test_agreement_and_perplexity() -> None:
    reference = Scores([1, 2, 3, 4], [math.log(0.5)] * 4)
    assert Scores([1, 2, 3, 5], [0.0] * 4).agreement(reference) == 0.75
    assert reference.perplexity == pytest.approx(2)
