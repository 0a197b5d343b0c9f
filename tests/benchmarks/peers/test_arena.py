from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.peers import arena as arena_module
from benchmarks.peers.arena import Arena, ModelFiles
from benchmarks.peers.contestant import Contestant
from benchmarks.peers.engine_settings import EngineSettings
from benchmarks.peers.process import PeerError
from benchmarks.peers.rows import ROWS, Amounts, Row
from benchmarks.peers.work import Outcome, Work

AMOUNTS = Amounts(num_pairs=1, num_runs=1, num_batches=1, decode_len=2, prefill_len=8, num_calls=1, call_len=4)
SMALL = EngineSettings(quantization="none", dtype="float32", kv_cache_gb=0.005)


def row_named(name: str) -> Row:
    (row,) = (row for row in ROWS if row.name == name)
    return replace(row, settings=replace(SMALL, max_draft_len=row.settings.max_draft_len))


@pytest.fixture
def arena(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    small, large = ModelFiles(name=str(tiny_folder)), ModelFiles(name="qwen2.5-coder-1.5b-instruct")
    return Arena(small, large, schemas=None, amounts=AMOUNTS, num_threads=1)


class Here:
    """A contestant in this process: starting others takes seconds."""

    def __init__(self, make: Callable[[], Contestant]) -> None:
        try:
            self._contestant = make()
        except Exception as error:
            raise PeerError(str(error)) from error

    def do(self, work: Work) -> Outcome:
        return work.do(self._contestant)

    def close(self) -> None:
        self._contestant.close()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "ContestantProcess", Here)


@pytest.mark.usefixtures("in_this_process")
def test_a_peer_is_measured_in_pairs_with_ours(arena: Arena) -> None:
    result = arena.measure(row_named("decode_int8"), "transformers")
    assert (result["row"], result["peer"], result["unit"]) == ("decode_int8", "transformers", "tokens/s")
    assert isinstance(result["ratio"], float)
    assert result["ours"]
    assert result["theirs"]
    assert "reason" not in result


def test_our_own_engine_in_another_process_is_its_own_peer(arena: Arena) -> None:
    result = arena.measure(row_named("constraint_cost"), "free")
    assert isinstance(result["ratio"], float)


@pytest.mark.usefixtures("in_this_process")
def test_a_peer_without_its_file_has_null_figures_and_a_reason(arena: Arena) -> None:
    result = arena.measure(row_named("prefill_strict"), "llama.cpp")
    assert result["ours"]
    assert result["theirs"] is result["ratio"] is None
    assert "--gguf" in str(result["reason"])


@pytest.mark.usefixtures("in_this_process")
def test_a_peer_that_does_not_start_has_null_figures_and_a_reason(arena: Arena, tiny_folder: Path) -> None:
    damaged = replace(ModelFiles(name=str(tiny_folder)), gguf=tiny_folder / "config.json")
    arena = Arena(damaged, damaged, schemas=None, amounts=AMOUNTS, num_threads=1)
    result = arena.measure(row_named("prefill_strict"), "llama.cpp")
    assert result["ours"]
    assert result["theirs"] is result["ratio"] is None
    assert result["reason"]


@pytest.mark.usefixtures("in_this_process")
def test_a_model_that_is_not_there_is_a_reason_too(arena: Arena) -> None:
    result = arena.measure(row_named("decode_int4_1.5b"), "llama.cpp")
    assert result["ours"] is result["theirs"] is result["ratio"] is None
    assert "sureact pull" in str(result["reason"])


@pytest.mark.usefixtures("in_this_process")
def test_work_that_is_refused_whole_is_a_reason_too(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, work: Work) -> Outcome:
        return Outcome(0, 0.0, refusal="no")

    monkeypatch.setattr(Here, "do", refuse)
    result = arena.measure(row_named("decode_int8"), "transformers")
    assert result["ours"] is result["theirs"] is result["ratio"] is None
    assert result["reason"] == "all of the work was refused"
