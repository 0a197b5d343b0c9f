from dataclasses import replace

from sureact.cli.prediction_report import prediction_lines
from sureact.evaluation.prediction import Bandwidth, ModelSizes, predict

SIZES = ModelSizes(
    name="a-model",
    is_on_disk=False,
    matrix_parameters=10**9,
    visited_parameters=10**9,
    other_parameters=0,
    is_head_tied=False,
    kv_bytes_per_token=10_000,
    context_len=32_000,
)


def report(sizes: ModelSizes, free_bytes: int, *, is_gpu: bool = False) -> str:
    bandwidth = Bandwidth(memory=20, host_to_device=5 if is_gpu else None)
    found = predict(sizes, "none", bandwidth=bandwidth, free_bytes=free_bytes, is_gpu=is_gpu)
    return "\n".join(prediction_lines(sizes, bandwidth, [found]))


def test_the_report_tells_where_the_model_is_and_what_it_takes() -> None:
    said = report(SIZES, 10**11)
    assert said.startswith("a-model: not on this disk; `sureact pull a-model`\n")
    assert "10.0 MB per 1,000 tokens of context, 5.0 MB with kv_cache_dtype=float8_e4m3\n" in said
    assert "2.00 GB" in said
    assert report(replace(SIZES, is_on_disk=True), 10**11).startswith("a-model: on this disk\n")


def test_what_does_not_fit_is_told() -> None:
    assert "  yes   " in report(SIZES, 10**11)
    assert "  no    " in report(SIZES, 10**9)


def test_a_gpu_that_is_too_small_comes_with_the_cost() -> None:
    said = report(SIZES, 10**9, is_gpu=True)
    assert "accelerate keeps 1.72 GB" in said
    assert "at 5.0 GB/s" in said


def test_the_slow_path_comes_with_its_reason() -> None:
    said = report(replace(SIZES, slow_reason="No module."), 10**11)
    assert "it runs in transformers. No module." in said
    assert "kv_cache_dtype" not in said
