from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.conftest import CheckpointMaker

from sureact.engine import Engine
from sureact.evaluation.bench_react import measure_react, play_script, play_together
from sureact.evaluation.react_script import ReactRun, react_script


@pytest.fixture(scope="module")
def engine(make_checkpoint: CheckpointMaker) -> Iterator[Engine]:
    folder: Path = make_checkpoint("qwen2", max_position_embeddings=16384)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.05, num_threads=1) as engine:
        yield engine


def texts(run: ReactRun) -> list[str]:
    return [piece.text for turn in run.turns for piece in turn.pieces]


def test_runs_are_measured_turn_by_turn(engine: Engine) -> None:
    measured = measure_react(engine, num_turns=1, repeats=1)
    (run,) = measured.runs
    assert measured.median == run.seconds > 0
    assert measured.turn_seconds(0) == run.turns[0].seconds
    assert run.turns[0].pieces[0].num_tokens == react_script(0).thought_len
    assert run.turns[0].timings.prefill_s + run.turns[0].timings.decode_s > 0


def test_agents_say_the_same_together_as_alone(engine: Engine) -> None:
    scripts = [react_script(seed, num_turns=1) for seed in (0, 1)]
    together = play_together(engine, scripts, cache_salt="a")
    assert [texts(run) for run in together] == [texts(play_script(engine, script)) for script in scripts]
