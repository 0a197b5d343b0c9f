from pathlib import Path

from benchmarks.engine.step import DecodeStep

from sureact.config import EngineConfig


def test_a_step_can_be_run_again_and_again(tiny_folder: Path) -> None:
    config = EngineConfig(
        model=str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079, num_threads=1
    )
    step = DecodeStep(config, num_rows=3, context_len=200)
    assert step.config.quantization == "none"
    assert step.seconds(2) > 0
