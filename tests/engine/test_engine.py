"""The engine's verbs, its errors, and that one bad request hurts only itself."""

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.async_engine import AsyncEngine
from sureact.constraints.constraint import CompiledConstraint, Constraint, ConstraintState
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintError, OutOfMemoryError, PromptTooLongError, RequestAbortedError
from sureact.execution.engine_loop import EngineLoop
from sureact.execution.model_runner import PagedModelRunner
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.tokens.chat_template import ChatTemplate, Message
from sureact.tokens.vocabulary import Vocabulary

FREE = SamplingParams(max_tokens=8, ignore_eos=True)


def test_a_list_of_prompts_gives_a_list_in_its_order(tiny_engine: Engine) -> None:
    outputs = tiny_engine.generate(["one", "two", "three"], FREE)
    assert [o.token_ids for o in outputs] == [tiny_engine.generate(p, FREE).token_ids for p in ("one", "two", "three")]


def test_text_and_its_ids_give_the_same(tiny_engine: Engine) -> None:
    assert tiny_engine.generate("abc", FREE).text == tiny_engine.generate(tiny_engine.encode("abc"), FREE).text


def test_streaming_and_not_give_the_same_text(tiny_engine: Engine) -> None:
    streamed = "".join(delta.text for delta in tiny_engine.stream("abc", FREE))
    assert streamed == tiny_engine.generate("abc", FREE).text


def test_unused_rows_of_the_head_are_never_sampled(tiny_engine: Engine) -> None:
    params = SamplingParams(max_tokens=64, temperature=50.0, seed=1, ignore_eos=True)
    ids = tiny_engine.generate("abc", params).token_ids
    assert len(set(ids)) > 40
    assert max(ids) < 261


def test_the_same_seed_gives_the_same_text_and_n_gives_different_ones(tiny_engine: Engine) -> None:
    params = SamplingParams(max_tokens=12, temperature=2.0, seed=5, n=3, ignore_eos=True)
    first, second = (tiny_engine.generate("abc", params).completions for _ in range(2))
    assert [c.token_ids for c in first] == [c.token_ids for c in second]
    assert len({c.token_ids for c in first}) == 3


def test_min_tokens_holds_back_the_end(tiny_engine: Engine) -> None:
    eos = tiny_engine.vocabulary.eos_ids[0]
    for prompt in ("a", "bc", "def", "q"):
        output = tiny_engine.generate(prompt, SamplingParams(max_tokens=10, min_tokens=10))
        assert eos not in output.token_ids
        assert output.completions[0].usage.completion_tokens == 10


def test_penalties_change_what_repeats(tiny_engine: Engine) -> None:
    plain = tiny_engine.generate("aaaa", SamplingParams(max_tokens=40, ignore_eos=True)).token_ids
    settings: list[dict[str, Any]] = [
        {"repetition_penalty": 5.0},
        {"presence_penalty": 2.0},
        {"frequency_penalty": 2.0},
    ]
    for setting in settings:
        params = SamplingParams(max_tokens=40, ignore_eos=True, **setting)
        assert len(set(tiny_engine.generate("aaaa", params).token_ids)) >= len(set(plain))


def test_repetition_penalty_is_that_of_transformers(tiny_engine: Engine, tiny_folder: Path) -> None:
    from transformers import AutoModelForCausalLM, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    prompt = tiny_engine.encode("hello there")
    settings = GenerationConfig(
        max_new_tokens=32,
        do_sample=False,
        repetition_penalty=1.3,
        eos_token_id=None,
        pad_token_id=0,
        suppress_tokens=list(range(261, 288)),
    )
    ids = torch.tensor([prompt])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)  # pyright: ignore
    ours = tiny_engine.generate(prompt, SamplingParams(max_tokens=32, ignore_eos=True, repetition_penalty=1.3))
    assert list(ours.token_ids) == expected[0, len(prompt) :].tolist()


def test_a_stop_that_spells_a_control_token_matches_that_token(tiny_engine: Engine) -> None:
    (stop_id,) = tiny_engine.encode("<tool_call>", parse_control_tokens=True)

    request = tiny_engine.new_request(CachedSequence([97]), SamplingParams(stop="<tool_call>"), None)
    request.accept(stop_id, None)
    assert request.is_done
    assert request.num_kept == 0


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(tiny_engine: Engine, prompt: str | list[int]) -> None:
    with pytest.raises(ConfigError, match="prompt is empty"):
        tiny_engine.generate(prompt)


def test_ids_outside_the_vocabulary_are_refused_with_the_range(tiny_engine: Engine) -> None:
    with pytest.raises(ConfigError, match=r"300 is not a token id.*0 to 287, 27 of them unused"):
        tiny_engine.generate([300])
    with pytest.raises(ConfigError, match="270 is not a token id"):
        tiny_engine.generate([270])


def test_a_prompt_longer_than_the_context_is_refused_with_numbers(tiny_engine: Engine) -> None:
    with pytest.raises(PromptTooLongError, match=r"1,020 tokens; this engine takes 1,024"):
        tiny_engine.generate("a" * 1020, FREE)


def test_the_cache_has_no_lost_block_after_errors(tiny_engine: Engine) -> None:
    used = tiny_engine.stats().kv_blocks_used
    with pytest.raises(ConfigError):
        tiny_engine.generate(["a", "b", ""], FREE)
    with pytest.raises(PromptTooLongError):
        tiny_engine.generate(["a", "b" * 1020], FREE)
    assert tiny_engine.stats().kv_blocks_used == used
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_a_pass_out_of_memory_fails_its_requests_and_the_engine_lives(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    with monkeypatch.context() as patch:
        patch.setattr(PagedModelRunner, "run", run_out)
        with pytest.raises(OutOfMemoryError, match="prefill_chunk_len"):
            tiny_engine.generate("abc", FREE)
    assert tiny_engine.generate("abc", FREE).finish_reason == "length"


class RaisesAfterThree(ConstraintState):
    """Allows everything and breaks on the fourth token."""

    def __init__(self) -> None:
        self.num_accepted = 0

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        bitmask[row, :8] = -1
        bitmask[row, 8:] = 0

    def check_token(self, token_id: int) -> bool:
        return token_id % 2 == 0

    def accept_token(self, token_id: int) -> None:
        self.num_accepted += 1
        if self.num_accepted > 3:
            raise RuntimeError("broken constraint")

    def rollback(self, num_tokens: int) -> None:
        self.num_accepted -= num_tokens

    def forced_tokens(self) -> list[int]:
        return []

    is_accepting = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    is_terminated = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def fork(self) -> ConstraintState:
        raise NotImplementedError


class Breaking(Constraint, CompiledConstraint):
    cache_key = "breaking"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return self

    def new_state(self) -> ConstraintState:
        return RaisesAfterThree()


def test_a_constraint_that_raises_ends_its_own_request_only(tiny_engine: Engine) -> None:
    good: list[str] = []
    beside = threading.Thread(target=lambda: good.append(tiny_engine.generate("abc", FREE).text))
    beside.start()
    with pytest.raises(RuntimeError, match="broken constraint"):
        tiny_engine.generate("abc", SamplingParams(max_tokens=8), Breaking())
    beside.join()
    assert good == [tiny_engine.generate("abc", FREE).text]


def test_a_vetoed_token_gives_way_to_the_next_best(tiny_engine: Engine) -> None:
    for delta in tiny_engine.stream("abc", SamplingParams(max_tokens=3), Breaking()):
        assert all(token_id % 2 == 0 for token_id in delta.token_ids)


def test_a_closed_engine_refuses_work_and_fails_what_was_running(tiny_folder: Path) -> None:
    engine = Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.004)
    stream = engine.stream("abc", SamplingParams(max_tokens=900, ignore_eos=True))
    next(stream)
    engine.close()
    with pytest.raises(RequestAbortedError, match="closed"):
        list(stream)
    with pytest.raises(RequestAbortedError, match="closed"):
        engine.generate("abc")


def test_logprobs_are_of_the_picked_token_and_the_likeliest(tiny_engine: Engine) -> None:
    output = tiny_engine.generate("abc", SamplingParams(max_tokens=4, logprobs=2, ignore_eos=True)).completions[0]
    assert output.logprobs is not None
    for token_id, step in zip(output.token_ids, output.logprobs, strict=True):
        assert step.picked.token_id == token_id
        assert len(step.top) == 2
        assert step.picked.logprob <= step.top[0].logprob <= 0


def test_chat_goes_through_the_template(tiny_engine: Engine) -> None:
    prompt = tiny_engine.render_chat([{"role": "user", "content": "hi <|im_end|>"}])
    ids = tiny_engine.encode(prompt)
    assert prompt.text == "<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert sum(token_id >= 256 for token_id in ids) == 3
    output = tiny_engine.chat([{"role": "user", "content": "hi <|im_end|>"}], FREE)
    assert list(output.prompt_token_ids) == ids


@pytest.mark.parametrize("prompt", [None, [1.5], ["a", 1], [True]])
def test_a_prompt_of_another_type_is_refused(tiny_engine: Engine, prompt: Any) -> None:
    with pytest.raises(ConfigError):
        tiny_engine.generate(prompt, FREE)


def test_text_that_utf8_cannot_spell_is_refused(tiny_engine: Engine) -> None:
    with pytest.raises(ConfigError, match="surrogate"):
        tiny_engine.generate("a\udc80b", FREE)
    with pytest.raises(ConfigError, match="surrogate"):
        SamplingParams(stop="\udc80")


def test_what_a_failed_request_left_in_the_cache_does_not_reach_the_next(tiny_folder: Path) -> None:
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0002) as engine:
        expected = engine.generate("abc", FREE).token_ids
        runner = engine._loop._runner  # pyright: ignore[reportPrivateUsage]
        assert isinstance(runner, PagedModelRunner)
        for keys, values in runner.storage.layers:
            keys[:, 64:] = float("nan")
            values[:, 64:] = float("nan")
        with pytest.raises(ValueError, match="NaN"):
            engine.generate("a" * 300, FREE)
        assert engine.generate("abc", FREE).token_ids == expected


def test_a_forgotten_engine_ends_its_thread(tiny_folder: Path) -> None:
    engine = Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.004)
    engine.generate("abc", FREE)
    thread = engine._loop._thread  # pyright: ignore[reportPrivateUsage]
    assert thread is not None
    del engine
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_chat_template_gets_variables(tiny_engine: Engine) -> None:
    template = tiny_engine._tokenizer.chat_template  # pyright: ignore[reportPrivateUsage]
    tiny_engine._tokenizer.chat_template = ChatTemplate("{{ mood }}{{ messages[0].content }}")  # pyright: ignore[reportPrivateUsage]
    try:
        prompt = tiny_engine.render_chat([{"role": "user", "content": "hi"}], variables={"mood": "merry "})
    finally:
        tiny_engine._tokenizer.chat_template = template  # pyright: ignore[reportPrivateUsage]
    assert prompt.text == "merry hi"


def test_prompts_of_a_list_may_be_ids_or_rendered(tiny_engine: Engine) -> None:
    rendered = tiny_engine.render_chat([{"role": "user", "content": "hi"}])
    expected = tiny_engine.generate(rendered, FREE).text
    assert [output.text for output in tiny_engine.generate([rendered, rendered], FREE)] == [expected] * 2
    ids = tiny_engine.encode(rendered)
    assert [output.text for output in tiny_engine.generate([ids, ids], FREE)] == [expected] * 2
    with pytest.raises(ConfigError):
        tiny_engine.generate(["a", 1], FREE)  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize("salt", [3, b"x", ("a",), ["a"]])
def test_a_cache_salt_that_is_no_text_is_refused_by_every_verb(tiny_engine: Engine, salt: Any) -> None:
    messages: list[Message] = [{"role": "user", "content": "hi"}]
    view = AsyncEngine.of(tiny_engine)
    verbs: list[Callable[[], object]] = [
        lambda: tiny_engine.generate("abc", FREE, cache_salt=salt),
        lambda: tiny_engine.stream("abc", FREE, cache_salt=salt),
        lambda: tiny_engine.chat(messages, FREE, cache_salt=salt),
        lambda: tiny_engine.session(cache_salt=salt),
        lambda: asyncio.run(view.generate("abc", FREE, cache_salt=salt)),
        lambda: view.session(cache_salt=salt),
    ]
    for verb in verbs:
        with pytest.raises(ConfigError, match="cache_salt is"):
            verb()
    assert tiny_engine.generate("abc", FREE, cache_salt="a").token_ids == tiny_engine.generate("abc", FREE).token_ids


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConstraintError])
def test_an_error_among_many_prompts_ends_all_of_them_with_one_step(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    calls: list[str] = []
    cancel, abort = EngineLoop.cancel, EngineLoop.abort

    def fail(loop: EngineLoop, request: Request, output: StepOutput) -> StepOutput:
        calls.clear()
        raise error

    def note_cancel(loop: EngineLoop, request: Request) -> None:
        calls.append("cancel")
        cancel(loop, request)

    def note_abort(loop: EngineLoop, request: Request) -> None:
        calls.append("wait")
        monkeypatch.setattr(EngineLoop, "cancel", cancel)
        abort(loop, request)

    monkeypatch.setattr("sureact.engine.judged_output", fail)
    monkeypatch.setattr(EngineLoop, "cancel", note_cancel)
    monkeypatch.setattr(EngineLoop, "abort", note_abort)
    prompts = [[n] * n for n in range(1, 6)]
    with pytest.raises(error):
        tiny_engine.generate(prompts, SamplingParams(max_tokens=200, ignore_eos=True))
    assert calls == ["cancel"] * 5 + ["wait"] * 5
    stats = tiny_engine.stats()
    assert (stats.num_running, stats.num_waiting) == (0, 0)


def test_beginnings_are_forgotten_when_asked(tiny_engine: Engine) -> None:
    prompt = [n % 200 for n in range(300)]
    tiny_engine.generate(prompt, FREE)
    assert tiny_engine.generate(prompt, FREE).completions[0].usage.cached_tokens >= 256
    tiny_engine.clear_prefix_cache()
    assert tiny_engine.generate(prompt, FREE).completions[0].usage.cached_tokens == 0
    assert tiny_engine.generate(prompt, FREE).completions[0].usage.cached_tokens >= 256


def test_beginnings_are_forgotten_between_steps_while_others_run(tiny_engine: Engine) -> None:
    params = SamplingParams(max_tokens=200, ignore_eos=True)
    expected = tiny_engine.generate("abc", params).token_ids
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(tiny_engine.generate, "abc", params)
        while not running.done():
            tiny_engine.clear_prefix_cache()
    assert running.result().token_ids == expected
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]
