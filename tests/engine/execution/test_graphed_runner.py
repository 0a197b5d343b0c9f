"""An engine that decodes by graphs, and one step ahead, generates what one without does."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.engine.session_machine import NUM_CONSTRAINTS, SessionMachine

from sureact.config import Dtype, Quantization
from sureact.constraints.constraint import Constraint
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.execution import graphed_runner
from sureact.execution.decode_graphs import DecodeGraphs
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact_kernels import dispatch

FORMS: dict[str, tuple[Quantization, Dtype]] = {
    "float32": ("none", "float32"),
    "bfloat16": ("none", "bfloat16"),
    "int8": ("int8", "bfloat16"),
}
PROMPTS = ("a", "abcabcabc", "x" * 126, "y" * 200, "Question: which?\n" * 4)
FREE = SamplingParams(max_tokens=30, ignore_eos=True)
PARAMS = (
    FREE,
    SamplingParams(max_tokens=30),
    SamplingParams(max_tokens=20, stop=["a", [97, 97], [98]], min_tokens=2),
    SamplingParams(max_tokens=20, logprobs=2, ignore_eos=True),
    SamplingParams(max_tokens=20, temperature=0.7, seed=3, ignore_eos=True),
    SamplingParams(max_tokens=20, repetition_penalty=1.2, ignore_eos=True),
    SamplingParams(max_tokens=12, min_tokens=5),
)


@pytest.fixture(autouse=True)
def graphs_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an engine on a CPU decode as one on a GPU does; its steps are run where a GPU would replay them."""
    monkeypatch.setattr(graphed_runner, "GRAPH_DEVICE", "cpu")


@pytest.fixture(params=FORMS)
def pair(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[tuple[Engine, Engine]]:
    quantization, dtype = FORMS[request.param]
    options: dict[str, Any] = {"quantization": quantization, "dtype": dtype, "kv_cache_gb": 0.008}
    with (
        Engine(str(tiny_folder), **options) as graphed,
        Engine(str(tiny_folder), **options, cuda_graphs=False) as plain,
    ):
        assert graphed.config.cuda_graphs
        assert not plain.config.cuda_graphs
        yield graphed, plain


@pytest.fixture
def free_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each free step."""
    steps: list[int] = []
    step = DecodeGraphs.step

    def counted(graphs: DecodeGraphs) -> Any:
        steps.append(graphs._num_loaded)  # pyright: ignore[reportPrivateUsage]
        return step(graphs)

    monkeypatch.setattr(DecodeGraphs, "step", counted)
    return steps


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were loaded each time."""
    counts: list[int] = []
    load = DecodeGraphs.load

    def counted(graphs: DecodeGraphs, rows: Any, masks: torch.Tensor | None = None) -> None:
        counts.append(len(rows))
        load(graphs, rows, masks)

    monkeypatch.setattr(DecodeGraphs, "load", counted)
    return counts


def ask(engine: Engine, prompt: str, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
    return engine.generate(prompt, params, constraint).completions[0]


def same(found: StepOutput, expected: StepOutput) -> bool:
    return (found.token_ids, found.logprobs, found.stop_reason) == (
        expected.token_ids,
        expected.logprobs,
        expected.stop_reason,
    )


@pytest.mark.parametrize("params", PARAMS, ids=range(len(PARAMS)))
def test_alone(pair: tuple[Engine, Engine], params: SamplingParams) -> None:
    for prompt in PROMPTS:
        assert same(*(ask(engine, prompt, params) for engine in pair))


def test_in_company_of_every_kind(pair: tuple[Engine, Engine]) -> None:
    graphed, plain = pair
    asked: list[tuple[Any, ...]] = [(prompt, params, None) for prompt in PROMPTS for params in PARAMS]
    asked += [(prompt, SamplingParams(max_tokens=25), regex("(ab|ba){2,20}")) for prompt in PROMPTS]
    with ThreadPoolExecutor(len(asked)) as pool:
        together = list(pool.map(partial(ask, graphed), *zip(*asked, strict=True)))
    for arguments, output in zip(asked, together, strict=True):
        assert same(output, ask(plain, *arguments)), arguments


@pytest.fixture
def graphed(tiny_folder: Path) -> Iterator[Engine]:
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.008, max_draft_len=0) as engine:
        yield engine


def test_free_text_runs_ahead_of_the_host(graphed: Engine, free_steps: list[int], loads: list[int]) -> None:
    ask(graphed, "abc", FREE)
    # The first of the 30 tokens comes from the prompt; nothing is computed behind the last.
    assert free_steps == [1] * 29
    assert loads == [1]


def test_a_block_that_ends_interrupts_once(graphed: Engine, free_steps: list[int], loads: list[int]) -> None:
    ask(graphed, "x" * 110, FREE)
    assert (free_steps, loads) == ([1] * 29, [1, 1])


def test_who_remains_when_another_met_a_stop_goes_on_without_a_load(
    graphed: Engine, free_steps: list[int], loads: list[int]
) -> None:
    texts = {prompt: ask(graphed, prompt, FREE).token_ids for prompt in ("abc", "hello")}
    stop = next(i for i in range(8, 28) if texts["abc"][i] not in texts["abc"][:i])
    short = SamplingParams(max_tokens=30, ignore_eos=True, stop=[[texts["abc"][stop]]])
    free_steps.clear()
    loads.clear()
    streams = [graphed.stream("abc", short), graphed.stream("hello", FREE)]
    outputs = [stream.read_output() for stream in streams]
    assert outputs[0].token_ids == texts["abc"][:stop]
    assert outputs[1].token_ids == texts["hello"]
    assert sum(loads) <= 4
    assert 1 in free_steps or 2 in free_steps


def test_a_step_ahead_is_dropped_where_drafts_come(tiny_folder: Path, free_steps: list[int]) -> None:
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.008) as drafting:
        output = ask(drafting, "abcabcabcabcabc" * 4, SamplingParams(max_tokens=100, ignore_eos=True))
    assert output.usage.draft_tokens > 0
    assert len(free_steps) < 100


def test_a_fork_in_the_middle_of_a_text_changes_neither(graphed: Engine) -> None:
    expected = ask(graphed, "good morning", SamplingParams(max_tokens=40, ignore_eos=True)).token_ids
    with graphed.session() as session:
        session.append("good morning")
        first = session.generate(SamplingParams(max_tokens=15, ignore_eos=True)).token_ids
        with session.fork() as fork:
            rest = SamplingParams(max_tokens=25, ignore_eos=True)
            streams = [session.stream(rest), fork.stream(rest)]
            assert [first + stream.read_output().token_ids for stream in streams] == [expected] * 2


def test_after_a_step_that_fails_each_request_runs_alone(graphed: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = ("abc", "hello")
    expected = [ask(graphed, prompt, FREE).token_ids for prompt in prompts]
    runner = graphed._loop._runner  # pyright: ignore[reportPrivateUsage]
    assert isinstance(runner, graphed_runner.GraphedRunner)
    logits_of, failures = runner.model.logits, 0

    def fail_with_two_rows(hidden: torch.Tensor, needed: torch.Tensor | None = None) -> torch.Tensor:
        nonlocal failures
        if len(hidden) == 2:
            failures += 1
            raise RuntimeError("two rows are one too many")
        return logits_of(hidden, needed)

    monkeypatch.setattr(runner.model, "logits", fail_with_two_rows)
    streams = [graphed.stream(prompt, FREE) for prompt in prompts]
    assert [stream.read_output().token_ids for stream in streams] == expected
    assert failures


def test_without_memory_for_graphs_decoding_goes_on_without(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(_: DecodeGraphs, progress: object = None) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB\nand more")

    monkeypatch.setattr(DecodeGraphs, "capture", run_out)
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.008) as engine:
        assert not engine.config.cuda_graphs
        (notice,) = engine.config.notices
        assert notice.endswith("several times slower on small models: CUDA out of memory. Tried to allocate 2.00 GiB")
        assert ask(engine, "abc", FREE).usage.completion_tokens == 30


def test_a_model_with_experts_decodes_without_graphs(make_checkpoint: Callable[..., Path]) -> None:
    folder = make_checkpoint("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.008) as engine:
        assert engine.config.notices == (
            "Decoding runs without CUDA graphs: the host chooses the experts of this model.",
        )


def test_without_triton_decoding_runs_without_graphs(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed_runner, "reason_without_triton", lambda: "it is not installed.")
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.008) as engine:
        assert engine.config.notices == (
            "Decoding runs without CUDA graphs, which need the kernels in Triton: it is not installed.",
        )


@pytest.mark.parametrize(
    ("max_examples", "num_steps"), [(8, 20), pytest.param(150, 40, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_whatever_happens_to_sessions_their_contexts_are_those_of_a_naive_engine(
    tiny_folder: Path, tmp_path: Path, finite_constraint: Callable[..., Constraint], max_examples: int, num_steps: int
) -> None:
    options: dict[str, Any] = {"quantization": "none", "dtype": "float32"}
    words = {b"<<" + bytes([first, second]) + b">>" for first in b"abc" for second in b"abc"}
    constraints = (regex("Action: (ab|ba){2,9} End"), finite_constraint({b"<<ca>>"}, words, forces_text=True))
    small = Engine(str(tiny_folder), **options, kv_cache_gb=0.00032)  # five blocks
    naive = Engine(
        str(tiny_folder),
        **options,
        kv_cache_gb=0.004,
        max_draft_len=0,
        prefix_cache=False,
        max_model_len=small.context_len,
        cuda_graphs=False,
    )
    with small, naive:
        members = {
            "engine": small,
            "naive": naive,
            "folder": tmp_path,
            "constraints": (constraints * NUM_CONSTRAINTS)[:NUM_CONSTRAINTS],
        }
        machine = type("Machine", (SessionMachine,), members)
        run_state_machine_as_test(machine, settings=settings(max_examples=max_examples, stateful_step_count=num_steps))
        assert small.stats().kv_blocks_used == 0


@pytest.fixture
def triton_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every op of a model on a CPU run as its kernel in Triton, interpreted."""
    monkeypatch.setattr(dispatch, "GPU", "cpu")


SHORT = SamplingParams(max_tokens=6, ignore_eos=True)


@pytest.mark.usefixtures("triton_on_a_cpu")
@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_model_whose_ops_are_all_kernels_generates_what_the_references_do(
    family: str, make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"head_dim": 16} if family == "qwen3" else {}
    folder = str(make_checkpoint(family, **options))
    asked: list[tuple[Any, ...]] = [
        ("abcabcab", SHORT),
        ("x" * 126, SHORT),
        ("hello", SamplingParams(max_tokens=8), regex("(ab|ba){2,4}")),
        ("abc", SamplingParams(max_tokens=4, temperature=0.8, seed=1, ignore_eos=True)),
    ]
    with Engine(folder, quantization="none", dtype="float32", kv_cache_gb=0.002) as engine:
        streams = [engine.stream(*arguments) for arguments in asked]
        found = [stream.read_output().token_ids for stream in streams]
    assert dispatch.disabled() == {}
    monkeypatch.setattr(dispatch, "GPU", "cuda")
    with Engine(folder, quantization="none", dtype="float32", kv_cache_gb=0.002, cuda_graphs=False) as engine:
        assert found == [ask(engine, *arguments).token_ids for arguments in asked]


@pytest.mark.usefixtures("triton_on_a_cpu")
def test_kernels_give_a_row_the_same_bits_in_any_company(tiny_folder: Path) -> None:
    """In bfloat16: alone and beside others, a prompt whole, in chunks and found in the cache, by graphs and without."""
    params = SamplingParams(max_tokens=3, logprobs=2, ignore_eos=True)
    prompts = ("abcabcab", "x" * 130, "y")
    options: dict[str, Any] = {"quantization": "none", "dtype": "bfloat16", "kv_cache_gb": 0.002}
    with Engine(str(tiny_folder), **options) as engine:
        alone = [ask(engine, prompt, params) for prompt in prompts]
        cached = engine.generate(prompts[1], params)
        assert cached.completions[0].usage.cached_tokens >= 128
        streams = [engine.stream(prompt, params) for prompt in prompts]
        outputs = [stream.read_output() for stream in streams]
    with Engine(str(tiny_folder), **options, cuda_graphs=False, prefill_chunk_len=50, prefix_cache=False) as engine:
        chunked = [ask(engine, prompt, params) for prompt in prompts]
    for others in (outputs, chunked):
        assert all(map(same, others, alone))
    assert same(cached.completions[0], alone[1])
