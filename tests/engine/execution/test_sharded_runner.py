"""An engine of two processes: the tokens of one process, whatever runs beside, and clear ends when one is gone."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from sureact.constraints.choice import choice
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import RequestAbortedError, SessionError, WorkerLostError
from sureact.execution import load_shard_model
from sureact.execution.pass_output import PassOutput
from sureact.execution.shard_orders import PassInputs
from sureact.execution.sharded_model import ShardedModel
from sureact.execution.sharded_runner import ShardedRunner
from sureact.outputs import RequestOutput
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch
from sureact_kernels.errors import KernelInputError

CheckpointMaker = Callable[..., Path]
GREEDY = SamplingParams(max_tokens=12, ignore_eos=True)
LONG = "the quick brown fox jumps over the lazy dog;\n" * 5
PROMPTS = ["a", LONG, "the quick brown fox", LONG + "again", "xyz\n" * 5]


def open_engine(folder: Path, **options: Any) -> Engine:
    settings: dict[str, Any] = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.008, "num_threads": 2}
    return Engine(str(folder), **(settings | options))


def runner_of(engine: Engine) -> ShardedRunner:
    runner = engine.loop._runner  # pyright: ignore[reportPrivateUsage]
    assert isinstance(runner, ShardedRunner)
    return runner


def process_ids_of(engine: Engine) -> list[int]:
    return runner_of(engine)._workers.process_ids  # pyright: ignore[reportPrivateUsage]


def ids(outputs: list[RequestOutput]) -> list[tuple[int, ...]]:
    return [tuple(completion.token_ids) for output in outputs for completion in output.completions]


@pytest.fixture(scope="module")
def folder(make_checkpoint: CheckpointMaker) -> Path:
    return make_checkpoint("qwen2", tie_word_embeddings=True)


@pytest.fixture(scope="module")
def one(folder: Path) -> Iterator[Engine]:
    with open_engine(folder, prefill_chunk_len=64) as engine:
        yield engine


@pytest.fixture(scope="module")
def two(folder: Path) -> Iterator[Engine]:
    with open_engine(folder, prefill_chunk_len=64, tensor_parallel_size=2) as engine:
        yield engine


def test_what_runs_is_said(two: Engine, one: Engine) -> None:
    assert (one.config.tensor_parallel_size, two.config.tensor_parallel_size) == (1, 2)
    assert 0.4 < two.config.weight_bytes_per_token / one.config.weight_bytes_per_token < 0.6
    # Each process holds half of the heads.
    assert two.config.num_kv_blocks == 2 * one.config.num_kv_blocks


def test_a_batch_gets_the_tokens_of_one_process(one: Engine, two: Engine) -> None:
    assert ids(two.generate(PROMPTS, GREEDY)) == ids(one.generate(PROMPTS, GREEDY))
    assert two.stats().accepted_draft_tokens > 0


def test_cached_beginnings_and_chunks_change_nothing(one: Engine, two: Engine) -> None:
    two.clear_prefix_cache()
    first = two.generate(LONG + "once more", GREEDY)
    second = two.generate(LONG + "once more", GREEDY)
    assert second.completions[0].usage.cached_tokens > 64
    assert ids([first]) == ids([second]) == ids([one.generate(LONG + "once more", GREEDY)])


@pytest.mark.parametrize(
    ("params", "constraint"),
    [
        (SamplingParams(max_tokens=40), regex(r"[a-f]{3}-\d{4}(yes|no)")),
        (SamplingParams(max_tokens=40), choice(["alpha", "beta", "alphabet"])),
        (SamplingParams(max_tokens=16, temperature=0.9, top_p=0.9, seed=3, ignore_eos=True), None),
        (SamplingParams(max_tokens=16, repetition_penalty=1.3, min_tokens=16), None),
        (SamplingParams(max_tokens=12, stop="q", presence_penalty=0.5), None),
    ],
    ids=["regex", "choice", "sampled", "penalized", "stopped"],
)
def test_constraints_penalties_and_draws_give_the_tokens_of_one_process(
    one: Engine, two: Engine, params: SamplingParams, constraint: object
) -> None:
    # Beside each other run requests that need logits and others that do not.
    assert ids(two.generate(PROMPTS[:3], params, constraint)) == ids(one.generate(PROMPTS[:3], params, constraint))


def test_tokens_that_a_guard_refuses_are_taken_back_alike(one: Engine, two: Engine, finite_constraint: Any) -> None:
    constraint = finite_constraint({b"good", b"bat"}, {b"goal", b"bad", b"gone"})
    params = SamplingParams(max_tokens=10)
    assert ids([two.generate("w", params, constraint)]) == ids([one.generate("w", params, constraint)])


def test_log_probabilities_are_those_of_one_process(one: Engine, two: Engine) -> None:
    params = SamplingParams(max_tokens=6, logprobs=3, ignore_eos=True)
    ours, theirs = (engine.generate("log", params).completions[0].logprobs for engine in (two, one))
    assert ours is not None
    assert theirs is not None
    for own, other in zip(ours, theirs, strict=True):
        assert [top.token_id for top in own.top] == [top.token_id for top in other.top]
        assert own.picked.logprob == pytest.approx(other.picked.logprob, abs=1e-3)


def test_sessions_fork_and_go_back(one: Engine, two: Engine) -> None:
    def walk(engine: Engine) -> list[str]:
        session = engine.session()
        session.append(LONG)
        first = session.generate(GREEDY).text
        fork = session.fork()
        fork.append("and")
        session.append("or")
        texts = [first, fork.generate(GREEDY).text, session.generate(GREEDY).text]
        fork.truncate(40)
        return [*texts, fork.generate(GREEDY).text]

    assert walk(two) == walk(one)


def test_keys_and_values_of_several_processes_are_not_saved_and_those_of_one_not_taken(
    one: Engine, two: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = two.session()
    session.append("text")
    session.generate(GREEDY)
    with pytest.raises(SessionError, match=r"several processes.*without with_kv"):
        session.save(tmp_path / "with", with_kv=True)
    session.save(tmp_path / "without")
    assert two.session().load(tmp_path / "without") == 0
    theirs = one.session()
    theirs.append("text")
    theirs.generate(GREEDY)
    theirs.save(tmp_path / "theirs", with_kv=True)
    ours = two.session()
    with caplog.at_level(logging.INFO):
        assert ours.load(tmp_path / "theirs") == 0
    assert "tensor_parallel_size was None, is 2" in caplog.text
    assert ours.token_ids == theirs.token_ids


def captured(engine: Engine, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]) -> dict[int, torch.Tensor]:
    """Return the logits behind the last token of each request, by its first token."""
    found: dict[int, torch.Tensor] = {}
    run = ShardedRunner.run

    def keep(self: ShardedRunner, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        output = run(self, batch, fill_masks)
        row = 0
        for entry in batch.entries:
            if entry.num_picks and output.logits is not None and entry.is_prefill:
                found[entry.request.sequence.token_ids[0]] = output.logits[row].clone()
            row += entry.num_picks
        return output

    with monkeypatch.context() as patch:
        patch.setattr(ShardedRunner, "run", keep)
        ask()
    return found


def test_logits_have_the_same_bits_alone_in_a_batch_in_chunks_and_behind_a_cached_beginning(
    two: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(max_tokens=2, logprobs=1, ignore_eos=True)
    prompts = [f"{first}{LONG[:length]}." for first, length in (("A", 41), ("B", 200), ("C", 3), ("D", 131), ("E", 64))]

    def together() -> None:
        two.clear_prefix_cache()
        two.generate(prompts, params)

    def alone() -> None:
        two.clear_prefix_cache()
        for prompt in prompts:
            two.generate(prompt, params)

    def again() -> None:
        for prompt in prompts:
            two.generate(prompt, params)

    expected = captured(two, monkeypatch, together)
    assert len(expected) == len(prompts)
    for ask in (alone, again):
        found = captured(two, monkeypatch, ask)
        assert found.keys() == expected.keys()
        for first_id, logits in expected.items():
            assert torch.equal(found[first_id], logits)


def test_a_pass_that_fails_here_fails_its_request_alone(two: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = ShardedModel.blocks
    bad_id = two.encode("~")[0]

    def fail(self: ShardedModel, inputs: PassInputs) -> torch.Tensor:
        hidden = blocks(self, inputs)
        if bad_id in inputs.token_ids:
            raise RuntimeError("this prompt is too much")
        return hidden

    good = ids([two.generate("good", GREEDY)])
    monkeypatch.setattr(ShardedModel, "blocks", fail)
    streams = [two.stream(prompt, GREEDY) for prompt in ("good", "bad~")]
    texts = ["".join(delta.text for delta in streams[0])]
    with pytest.raises(RuntimeError, match="too much"):
        list(streams[1])
    assert texts == [two.generate("good", GREEDY).text]
    assert ids([two.generate("good", GREEDY)]) == good


def test_a_token_id_that_another_process_alone_refuses_fails_its_request_alone(
    two: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process is sent an id beyond the vocabulary, where this one computes the right one."""
    pack = PassInputs.pack
    bad_id = two.encode("~")[0]

    def spoil(self: PassInputs) -> bytes:
        packed = pack(self)
        return packed.replace(bad_id.to_bytes(8, "little"), (10**6).to_bytes(8, "little"))

    expected = two.generate("good", GREEDY).text
    with monkeypatch.context() as patch:
        patch.setattr(PassInputs, "pack", spoil)
        with pytest.raises(RuntimeError, match="Process 1 of the model failed: "):
            two.generate("bad~", GREEDY)
    assert two.generate("good", GREEDY).text == expected
    two.generate("bad~", GREEDY)


def test_a_logit_that_is_nan_fails_its_request(two: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def nan(self: ShardedModel, hidden: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        return likeliest(self, hidden, masks) * torch.nan

    likeliest = ShardedModel.likeliest
    with monkeypatch.context() as patch:
        patch.setattr(ShardedModel, "likeliest", nan)
        with pytest.raises(KernelInputError, match="A logit is NaN"):
            two.generate("text", GREEDY)
    two.generate("text", GREEDY)


@pytest.mark.parametrize(
    ("family", "options"),
    [("qwen3", {"head_dim": 32}), ("llama", {"attention_bias": True, "mlp_bias": True})],
    ids=["qwen3", "llama"],
)
def test_other_families_give_the_tokens_of_one_process(
    make_checkpoint: CheckpointMaker, family: str, options: dict[str, Any]
) -> None:
    folder = make_checkpoint(family, tie_word_embeddings=False, **options)
    with open_engine(folder) as one, open_engine(folder, tensor_parallel_size=2) as two:
        assert ids(two.generate(PROMPTS, GREEDY)) == ids(one.generate(PROMPTS, GREEDY))


def test_int8_matrices_are_cut_too(folder: Path) -> None:
    options = {"quantization": "int8", "dtype": "auto", "tensor_parallel_size": 2}
    with open_engine(folder, **options) as two:
        alone = [two.generate(prompt, GREEDY) for prompt in PROMPTS[:3]]
        assert ids(two.generate(PROMPTS[:3], GREEDY)) == ids(alone)


def test_a_cache_in_float8_is_cut_too(folder: Path) -> None:
    with open_engine(folder, tensor_parallel_size=2, kv_cache_dtype="float8_e4m3") as two:
        assert two.config.kv_cache_dtype == "float8_e4m3"
        alone = [two.generate(prompt, GREEDY) for prompt in PROMPTS[:3]]
        assert ids(two.generate(PROMPTS[:3], GREEDY)) == ids(alone)


def test_closing_ends_the_processes(folder: Path) -> None:
    engine = open_engine(folder, tensor_parallel_size=2)
    process_ids = process_ids_of(engine)
    runner = runner_of(engine)
    engine.close()
    assert not any(map(psutil.pid_exists, process_ids))
    engine.close()
    runner.close()
    with pytest.raises(RequestAbortedError):
        engine.generate("a", GREEDY)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "silent"])
def test_a_process_that_is_gone_or_silent_fails_all_requests_and_closes_the_engine(
    folder: Path, stop: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_shard_model, "TIMEOUT_S", 5.0)
    engine = open_engine(folder, tensor_parallel_size=2)
    process_ids = process_ids_of(engine)
    streams = [engine.stream(prompt, SamplingParams(max_tokens=600, ignore_eos=True)) for prompt in "abc"]
    next(iter(streams[0]))
    started = time.monotonic()
    threading.Timer(0.05, os.kill, (process_ids[0], stop)).start()
    for stream in streams:
        with pytest.raises(WorkerLostError, match="open a new one"):
            list(stream)
    assert time.monotonic() - started < 30
    with pytest.raises(RequestAbortedError, match="closed"):
        engine.generate("a", GREEDY)
    assert not any(map(psutil.pid_exists, process_ids))
    engine.close()
