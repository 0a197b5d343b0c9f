from pathlib import Path

import pytest
from benchmarks.quality.prompts import prompts

from sureact.tokens.chat_template import ChatTemplate
from sureact.tokens.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def template(tiny_folder: Path) -> ChatTemplate:
    found = Tokenizer(tiny_folder, num_logits=288).chat_template
    assert found is not None
    return found


def test_there_are_two_hundred_different_prompts(template: ChatTemplate) -> None:
    texts = [prompt.text for prompt in prompts(template, 200)]
    assert len(set(texts)) == 200


def test_few_prompts_are_as_mixed_as_many(template: ChatTemplate) -> None:
    four = [prompt.text for prompt in prompts(template, 4)]
    assert "Explain in three sentences" in four[0]
    assert "def " in four[1]
    assert "JSON Schema" in four[2]
    assert "Thought:" in four[3]


def test_prompts_are_the_same_every_time(template: ChatTemplate) -> None:
    assert prompts(template, 40) == prompts(template, 40)


def test_agents_have_come_further_in_later_prompts(template: ChatTemplate) -> None:
    steps = [
        prompt.text.count("\nAction:") for prompt in prompts(template, 200) if "Observation: the result" in prompt.text
    ]
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]
