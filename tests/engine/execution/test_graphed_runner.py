"""An engine that decodes by graphs, and one step ahead, generates what one without does."""

from collections.abc import Callable, Iterator, Sequence
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
from sureact.execution.decode_buffers import DecodeRow, PendingPicks
from sureact.execution.decode_graphs import DecodeGraphs
from sureact.execution.model_runner import PagedModelRunner
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
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


def test_a_block_that_ends_does_not_interrupt(
    graphed: Engine, tiny_folder: Path, free_steps: list[int], loads: list[int]
) -> None:
    """The next block is there, and the device told of it, before a step writes into it."""
    found = ask(graphed, "x" * 110, FREE)
    assert (free_steps, loads) == ([1] * 29, [1])
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.008, cuda_graphs=False) as plain:
        assert same(found, ask(plain, "x" * 110, FREE))


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


def test_where_the_kernels_that_steps_need_are_off_decoding_goes_on_without_graphs(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference of attention reads lengths on the host, so a recording would see those of its own time forever."""
    options: dict[str, Any] = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.002}
    with Engine(str(tiny_folder), **options, cuda_graphs=False) as engine:
        expected = ask(engine, "abcabc hello", FREE).token_ids
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(dispatch, "_disabled", {})
    for path in (Path(dispatch.__file__).parent / "triton").glob("[!_]*.py"):
        dispatch.disable(path.stem, "there is no C compiler")
    with Engine(str(tiny_folder), **options) as engine:
        assert not engine.config.cuda_graphs
        (notice,) = engine.config.notices
        assert "paged_attention: the lengths of this plan are on the device" in notice
        assert ask(engine, "abcabc hello", FREE).token_ids == expected


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


class ScriptedGraphs:
    """Remembers what was loaded, and picks what it is told to."""

    def __init__(self, *picks: list[tuple[int, bool]]) -> None:
        """Take, of each step, the token of each row and whether it ended a stop."""
        self.max_rows = 4
        self.calls: list[str] = []
        self._picks = list(picks)

    def load(self, rows: Sequence[DecodeRow], masks: torch.Tensor | None = None) -> None:
        self.calls.append("load " + " ".join(f"{row.token_id}@{row.position}" for row in rows))

    def load_tables(self, tables: dict[int, tuple[int, ...]]) -> None:
        self.calls.append(f"tables {tables}")

    def step(self) -> PendingPicks:
        self.calls.append("step")
        return PendingPicks(torch.tensor(self._picks.pop(0)).T, None)


class Play:
    """Gives batches to a runner as the engine would, and adds what it picks to the requests."""

    def __init__(self, plain: PagedModelRunner, *picks: list[tuple[int, bool]]) -> None:
        self.graphs = ScriptedGraphs(*picks)
        self._runner = graphed_runner.GraphedRunner(plain, self.graphs)  # pyright: ignore[reportArgumentType]

    def run(self, *requests: Request) -> list[str]:
        """Return what the graphs were asked for."""
        self.graphs.calls.clear()
        entries = tuple(ScheduledRequest(request, len(request.sequence) - 1, 1) for request in requests)
        output = self._runner.run(Batch(entries), lambda: torch.zeros(len(entries), 9, dtype=torch.int32))
        assert output.likeliest is not None
        for request, token_id in zip(requests, output.likeliest, strict=True):
            request.accept(token_id, None)
            request.sequence.num_cached = len(request.sequence) - 1
        return self.graphs.calls


@pytest.fixture
def plain_runner(graphed: Engine) -> PagedModelRunner:
    runner = graphed._loop._runner  # pyright: ignore[reportPrivateUsage]
    assert isinstance(runner, PagedModelRunner)
    return runner


def request_of(engine: Engine, last_id: int, block: int) -> Request:
    """Return a request that has read its prompt of 12 tokens and picked `last_id`."""
    request = Request(CachedSequence([0] * 12, [block]), FREE, engine.vocabulary, str.encode)
    request.accept(last_id, None)
    return request


def test_whoever_remains_goes_on_without_a_load_where_the_device_saw_the_end(
    graphed: Engine, plain_runner: PagedModelRunner
) -> None:
    one, other = request_of(graphed, 1, 0), request_of(graphed, 2, 1)
    play = Play(plain_runner, [(3, False), (4, True)], [(5, False), (9, False)], [(6, False), (9, False)])
    assert play.run(one, other) == ["load 1@12 2@12", "step", "step"]
    assert play.run(one) == ["step"]
    assert one.generated_ids == [1, 3, 5]
    assert other.generated_ids == [2, 4]


def test_whoever_remains_gets_the_step_ahead_and_a_load_after_it_where_the_host_ended_another(
    graphed: Engine, plain_runner: PagedModelRunner
) -> None:
    """The device would go on writing into blocks that may be another's by then."""
    one, other = request_of(graphed, 1, 0), request_of(graphed, 2, 1)
    play = Play(plain_runner, [(3, False), (4, False)], [(5, False), (6, False)], [(7, False)], [(8, False)])
    play.run(one, other)
    assert play.run(other) == []
    assert play.run(other) == ["load 6@14", "step", "step"]
    assert other.generated_ids == [2, 4, 6, 7]


def test_a_step_ahead_is_not_taken_where_the_host_took_a_stop_for_none(
    graphed: Engine, plain_runner: PagedModelRunner
) -> None:
    one = request_of(graphed, 1, 0)
    play = Play(plain_runner, [(3, True)], [(9, False)], [(5, False)], [(6, False)])
    play.run(one)
    assert play.run(one) == ["load 3@13", "step", "step"]
    assert one.generated_ids == [1, 3, 5]


def test_a_block_that_was_added_is_told_before_the_next_step(graphed: Engine, plain_runner: PagedModelRunner) -> None:
    one, other = request_of(graphed, 1, 0), request_of(graphed, 2, 1)
    play = Play(plain_runner, *[[(3, False), (4, False)]] * 4)
    play.run(one, other)
    other.sequence.block_table.append(7)
    assert play.run(one, other) == ["tables {1: (1, 7)}", "step"]
    assert play.run(one, other) == ["step"]


def test_a_step_ahead_is_not_taken_where_a_block_was_replaced_or_another_came(
    graphed: Engine, plain_runner: PagedModelRunner
) -> None:
    one = request_of(graphed, 1, 0)
    play = Play(plain_runner, *[[(3, False), (4, False)]] * 6)
    play.run(one)
    one.sequence.block_table[0] = 5
    assert play.run(one) == ["load 3@13", "step", "step"]
    assert play.run(request_of(graphed, 2, 1), one) == ["load 2@12 3@14", "step", "step"]
