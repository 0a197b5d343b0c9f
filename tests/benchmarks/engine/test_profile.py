import json
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.engine import profile as command
from benchmarks.engine.profile import OUTSIDE_OPS, OpProfile, profile_ops

from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.cpu.library import library
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.rms_norm import rms_norm


def test_a_products_bytes_are_those_of_its_matrices() -> None:
    x, weight = torch.ones(4, 256), torch.ones(256, 512)
    table, ids = torch.ones(1000, 64), torch.tensor([1, 2])

    def step() -> None:
        torch.mm(x, weight).t()
        torch.matmul(x[None], weight[None])
        torch.nn.functional.embedding(ids, table)

    ops = {op.op: op for op in profile_ops(step, step_us=1e6, repeats=3)}
    assert ops["aten::mm"].num_bytes == 4 * (4 * 256 + 256 * 512 + 4 * 512)
    assert ops["aten::mm"].calls == 1
    assert ops["aten::bmm"].num_bytes == ops["aten::mm"].num_bytes, "matmul is made of it"
    assert ops["aten::t"].num_bytes == 0
    assert ops["aten::embedding"].num_bytes == ids.nbytes + 2 * 64 * 4, "of a table only the rows that are taken"
    assert sum(op.us for op in ops.values()) == pytest.approx(1e6)
    assert next(iter(ops)) == OUTSIDE_OPS


@pytest.mark.skipif(library() is None, reason="no C++ ops here")
def test_ops_in_cpp_are_seen_with_the_bytes_that_they_touch() -> None:
    x, weight = torch.ones(3, 64), torch.ones(64)
    cache = torch.zeros(50, 16, 2, 32, dtype=torch.bfloat16)
    q = torch.ones(3, 4, 32)
    plan = plan_attention(torch.tensor([[3, 4]]), [3], [20], block_size=16, group=2)

    def step() -> None:
        rms_norm(x, weight, 1e-6)
        paged_attention(q, cache, cache, plan, 1.0)

    ops = {op.op: op for op in profile_ops(step, step_us=1e6, repeats=2)}
    assert ops["c++::rms_norm"].num_bytes == 2 * x.nbytes + weight.nbytes
    assert ops["c++::rms_norm"].calls == 1
    index_bytes = 8 * (2 + 2 + 1)
    assert ops["c++::paged_attention"].num_bytes == 2 * q.nbytes + index_bytes + 20 * 2 * 2 * 32 * 2
    assert ops["c++::paged_attention"].us > 0


def test_bandwidth_follows_from_bytes_and_time() -> None:
    assert OpProfile("op", 1, 10.0, 1e5).gb_per_s == 10.0
    assert OpProfile("op", 1, 0.0, 1e5).gb_per_s == 0.0


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_command_shows_ops_beside_the_limit(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    options = ("--quantization", "none", "--rows", "2", "--repeats", "2", "--num-threads", "1")
    monkeypatch.setattr(command, "memory_bandwidth", _known_bandwidth)
    monkeypatch.setattr(sys, "argv", ["profile", "--model", str(tiny_folder), *options, *words])
    assert command.main() == 0
    shown = capsys.readouterr().out
    if words:
        result = json.loads(shown)
        assert result["rows"] == 2
        assert result["bandwidth_gb_per_s"] == 10.0
        assert {"op", "calls", "us", "num_bytes", "gb_per_s"} == result["ops"][0].keys()
    else:
        assert "weights over bandwidth (10.0 GB/s)" in shown
        assert OUTSIDE_OPS[:10] in shown or "more" in shown


def test_a_model_that_is_not_there_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["profile", "--model", "nowhere"])
    assert command.main() == 1
    assert "nowhere" in capsys.readouterr().err


def _known_bandwidth(device: str) -> tuple[str, float]:
    return "read", 10.0
