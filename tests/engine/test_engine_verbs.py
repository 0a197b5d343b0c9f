import subprocess
import sys

import pytest

from sureact.engine import Engine
from sureact.engine_verbs import EngineVerbs, is_list_of_prompts
from sureact.outputs import RequestOutput
from sureact.sampling_params import SamplingParams
from sureact.tokens.chat_template import Message


class Noted(EngineVerbs):
    """An engine that only notes what it is asked for."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.config, engine._tokenizer)  # pyright: ignore[reportPrivateUsage]
        self.asked: list[list[int]] = []
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
        self.asked += prompts
        return [RequestOutput(prompt_token_ids=tuple(ids), completions=()) for ids in prompts]


@pytest.fixture
def noted(tiny_engine: Engine) -> Noted:
    return Noted(tiny_engine)


def test_one_prompt_gives_one_output_and_a_list_gives_a_list(noted: Noted) -> None:
    ids = noted.encode("Once")
    assert noted.generate("Once").prompt_token_ids == tuple(ids)
    assert noted.generate(ids).prompt_token_ids == tuple(ids)
    assert [output.prompt_token_ids for output in noted.generate(["Once", "Once"])] == [tuple(ids)] * 2
    assert noted.asked == [ids] * 4


def test_a_chat_is_what_its_template_makes_of_it(noted: Noted) -> None:
    messages: list[Message] = [{"role": "user", "content": "Hi <|im_end|>"}]
    rendered = noted.render_chat(messages)
    noted.chat(messages)
    assert noted.asked == [noted.encode(rendered)]


def test_tokens_are_counted_and_spelled(noted: Noted) -> None:
    ids = noted.encode("Once upon")
    assert noted.count_tokens("Once upon") == len(ids)
    assert noted.decode(ids) == "Once upon"
    assert noted.vocabulary.num_logits > max(ids)


def test_leaving_the_block_closes_it(noted: Noted) -> None:
    with noted as same:
        assert same is noted
        assert same.is_open
    assert not noted.is_open


def test_a_prompt_of_ids_is_no_list_of_prompts() -> None:
    assert [is_list_of_prompts(prompt) for prompt in ([1, 2], [], "a")] == [False] * 3
    assert [is_list_of_prompts(prompt) for prompt in ([[1], [2]], ["a"])] == [True] * 2


def test_an_engine_in_another_process_needs_no_torch_in_this_one() -> None:
    code = "import sys, sureact.isolation.engine_process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
