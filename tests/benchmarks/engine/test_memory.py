from pathlib import Path

import pytest
from benchmarks.engine.memory import Start, start

from sureact.evaluation.prediction import PROGRAM_BYTES


def test_a_start_is_measured_with_what_it_may_take(tiny_folder: Path) -> None:
    found = start(str(tiny_folder), "int8", 0.01)
    assert found.start_s > 0
    assert found.peak_bytes > 10**7
    assert found.kv_cache_bytes <= 10**7
    assert found.expected_bytes == found.weight_bytes + found.kv_cache_bytes + PROGRAM_BYTES


@pytest.mark.parametrize("kv_cache_bytes", [0, 5])
def test_the_expectation_is_the_sum_of_three(kv_cache_bytes: int) -> None:
    found = Start(import_s=1, start_s=1, peak_bytes=1, weight_bytes=7, kv_cache_bytes=kv_cache_bytes)
    assert found.expected_bytes == 7 + kv_cache_bytes + PROGRAM_BYTES
