import json
import sys
from collections.abc import Iterator

import pytest
import torch
from benchmarks.kernels import __main__ as module
from benchmarks.kernels import timing
from benchmarks.kernels.__main__ import main
from benchmarks.kernels.case import Case, Sizes
from benchmarks.kernels.cases import CASES

from sureact_kernels.triton import aot
from sureact_kernels.triton.aot import AotCase, Compiled


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "COPY_BYTES", {"cpu": 1 << 20, "cuda": 1 << 20})
    monkeypatch.setattr("benchmarks.harness._FLUSH_BYTES", 1 << 10)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kernels", *arguments])
    return main()


def test_every_op_is_right_and_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--model", "tiny", "--repeats", "1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failures"] == []
    assert {row["op"] for row in report["rows"]} == set(CASES)
    assert report["copy_gb_per_s"] > 0
    for row in report["rows"]:
        assert min(row["us"], row["gb_per_s"], row["share_of_copy"], row["torch_us"], row["ratio_to_torch"]) > 0
        assert row["tflop_per_s"] >= 0


def test_the_table_names_op_and_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "disabled", lambda: {"linear": "it does not compile"})
    assert run(monkeypatch, "--model", "tiny", "--repeats", "1", "--op", "rms_norm") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in lines[0]
    assert lines[1] == "linear runs as torch's reference: it does not compile"
    assert lines[2].split() == ["model", "op", "shape", "us", "spread", "GB/s", "of", "copy", "TFLOP/s", "x", "torch"]
    assert [line.split()[:2] for line in lines[3:]] == [["tiny", "rms_norm"]] * 3


def test_what_fails_leaves_the_others_their_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong_then_right(sizes: Sizes) -> Iterator[Case]:
        yield Case("one", lambda: 1, lambda: 2, num_bytes=1, flops=1)
        yield Case("two", lambda: 2, lambda: 2, num_bytes=1, flops=1)
        raise RuntimeError("out of memory")

    monkeypatch.setitem(CASES, "sample", wrong_then_right)
    arguments = ("--model", "tiny", "--repeats", "1", "--json", "--op", "sample", "--op", "embedding")
    assert run(monkeypatch, *arguments) == 1
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert report["failures"] == [
        {"op": "sample", "model": "tiny", "shape": "one", "error": "AssertionError: 1 is not 2"},
        {"op": "sample", "model": "tiny", "shape": "the next case", "error": "RuntimeError: out of memory"},
    ]
    assert [row["op"] for row in report["rows"]] == ["sample", *["embedding"] * 3]
    assert "Error: tiny sample one: AssertionError: 1 is not 2" in shown.err


def test_compiled_kernels_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def compile_case(case: AotCase, arch: int) -> Compiled:
        if case.name == "sample bfloat16":
            raise RuntimeError("too large")
        assert arch == 90
        return Compiled(registers=32, stack_bytes=8, local_bytes=0, shared_bytes=1024, seconds=0.5)

    names = ("rms_norm bfloat16", "sample float32", "sample bfloat16")
    monkeypatch.setattr(aot, "cases", lambda: [AotCase(name, None, {}, {}) for name in names])
    monkeypatch.setattr(aot, "compile_case", compile_case)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert run(monkeypatch, "--compile-only", "sm_90", "--op", "sample", "--json") == 1
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert kernels[0]["stack_bytes"] == 8
    assert kernels[1] == {"name": "sample bfloat16", "error": "RuntimeError: too large"}
    assert run(monkeypatch, "--compile-only", "sm_90", "--op", "rms_norm") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["rms_norm", "bfloat16", "32", "8", "0", "1024", "0.5"]


def test_the_interpreter_compiles_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert run(monkeypatch, "--compile-only", "sm_90") == 1
    assert "TRITON_INTERPRET is not 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--op", "rope"), "no such op: rope"),
        (("--compile-only", "90"), "write sm_80 for an A100"),
        (("--repeats", "0"), "--repeats"),
        (("--model", "gpt"), "--model"),
    ],
)
def test_wrong_usage_is_said(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, *arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err
