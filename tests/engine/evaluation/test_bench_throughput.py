import pytest

from sureact.engine import Engine
from sureact.errors import PromptTooLongError
from sureact.evaluation.bench_throughput import ThroughputMeasurement, measure_throughput


def test_all_tokens_are_generated_and_counted(tiny_engine: Engine) -> None:
    before = tiny_engine.stats().num_requests
    measured = measure_throughput(tiny_engine, num_requests=3, input_len=8, output_len=4)
    assert tiny_engine.stats().num_requests - before == 1 + 3
    assert (measured.prompt_tokens, measured.output_tokens) == (24, 12)
    assert measured.seconds > 0


def test_lengths_are_drawn_anew_for_every_seed_only(tiny_engine: Engine) -> None:
    first, again, other = (
        measure_throughput(tiny_engine, num_requests=2, input_len=160, output_len=1, seed=seed) for seed in (0, 0, 1)
    )
    assert first.prompt_tokens == again.prompt_tokens != other.prompt_tokens
    assert 200 <= first.prompt_tokens <= 320


def test_speeds_follow_from_tokens_and_seconds(tiny_engine: Engine) -> None:
    measured = ThroughputMeasurement(
        config=tiny_engine.config, num_requests=1, prompt_tokens=30, output_tokens=10, seconds=2.0
    )
    assert measured.output_tokens_per_s == 5.0
    assert measured.tokens_per_s == 20.0


def test_lengths_that_do_not_fit_are_refused(tiny_engine: Engine) -> None:
    with pytest.raises(PromptTooLongError):
        measure_throughput(tiny_engine, num_requests=1, input_len=8, output_len=100_000)
