from benchmarks.gpu import invariance as module
from benchmarks.gpu.invariance import _splits_of  # pyright: ignore[reportPrivateUsage]
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import TINY

from sureact_kernels.triton import paged_attention


def test_splits_are_changed_for_a_while_only() -> None:
    kept = paged_attention.SPLIT_TOKENS
    with _splits_of(64):
        assert paged_attention.SPLIT_TOKENS == 64
    assert kept == paged_attention.SPLIT_TOKENS
    with _splits_of(None):
        assert kept == paged_attention.SPLIT_TOKENS


def test_nothing_is_begun_after_its_time() -> None:
    report = PartReport("invariance", seconds=-1)
    module.measure(report, ["tiny"], TINY)
    assert "tiny, rms_norm" in report.cut
    assert "tiny" in report.cut
    assert report.figures == []
