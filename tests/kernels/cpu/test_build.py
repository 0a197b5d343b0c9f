"""Where the C++ ops come from, and that whatever goes wrong with them leaves the reference."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sureact_kernels.cpu import build as module
from sureact_kernels.cpu.build import COMPILE_FLAGS, Unavailable, fingerprint, load_ops, path_of_ops, sources_of_ops
from sureact_kernels.cpu.library import library, reason_unavailable
from sureact_kernels.errors import KernelInputError

needs_ops = pytest.mark.skipif(library() is None, reason=f"no C++ ops here: {reason_unavailable()}")


@pytest.fixture(autouse=True)
def ops() -> None:
    """These run once, not for each version of the ops."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    monkeypatch.delenv("SUREACT_KERNELS", raising=False)
    return tmp_path


def compiler_at(folder: Path, script: str) -> str:
    """Write a compiler that knows its version and else runs `script`."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\ncase "$1" in --version) echo 1;; *) {script};; esac\n')
    path.chmod(0o755)
    return str(path)


def _fail(compiler: str, path: Path) -> None:
    pytest.fail(f"built {path} anew with {compiler}")


@needs_ops
def test_ops_are_built_once_and_what_is_outdated_goes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "kernels").mkdir()
    old, young = home / "kernels" / "old.so", home / "kernels" / "young.so"
    for path in (old, young):
        path.touch()
    os.utime(old, (1, 1))
    assert not path_of_ops().exists()
    load_ops()
    assert not old.exists()
    assert young.exists()
    assert path_of_ops().exists()
    monkeypatch.setattr(module, "_build", _fail)
    load_ops()


@needs_ops
def test_ops_share_the_threads_of_torch(home: Path) -> None:
    """A second libgomp would keep a second thread per core, and each would wait for the other."""
    load_ops()
    loaded = set(re.findall(r"/\S*libgomp\S*", Path("/proc/self/maps").read_text()))
    assert len(loaded) == 1


@needs_ops
def test_a_store_below_the_home_folder_is_meant(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SUREACT_HOME", "~/store")
    assert path_of_ops().parent == home / "store" / "kernels"


def test_the_reference_can_be_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "reference")
    with pytest.raises(Unavailable, match="SUREACT_KERNELS is 'reference'"):
        load_ops()


@pytest.mark.parametrize("value", ["triton", "1", "Reference"])
def test_another_wish_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", value)
    with pytest.raises(KernelInputError, match=f"SUREACT_KERNELS is '{value}'.*'reference'"):
        load_ops()


@needs_ops
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'rms_norm.cpp:3:1: error: no such thing' >&2; exit 1", "refused them: rms_norm.cpp:3:1: error: no such"),
        ("echo 'killed' >&2; exit 1", "refused them: killed"),
        ("exit 0", "cannot be made or loaded"),
        ("touch $(echo $* | sed 's/.*-o //')", "cannot be made or loaded"),
    ],
)
def test_a_compiler_that_fails_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    monkeypatch.setenv("CXX", compiler_at(home, script))
    with pytest.raises(Unavailable, match=re.escape(reason)):
        load_ops()
    assert not list((home / "kernels").glob("unfinished-*"))


@needs_ops
def test_no_compiler_is_a_reason(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unavailable, match=r"no C\+\+ compiler; install g\+\+"):
        load_ops()


@needs_ops
def test_a_folder_that_cannot_be_written_is_a_reason(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "kernels").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be made or loaded"):
        load_ops()


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")])
def test_other_machines_are_told_so(home: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(module.platform, "system", lambda: system)
    monkeypatch.setattr(module.platform, "machine", lambda: machine)
    with pytest.raises(Unavailable, match=f"this is {system} on {machine}"):
        load_ops()


@needs_ops
def test_a_processor_without_the_instructions_is_told_which(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEEDED_FEATURES", ("avx512f", "avx1024", "amx_fp4"))
    with pytest.raises(Unavailable, match="lacks avx1024, amx_fp4"):
        load_ops()


def test_another_compiler_or_source_gives_another_file(home: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    first = fingerprint(compiler_at(one, "exit 0"), "a b")
    assert fingerprint(compiler_at(two, "exit 1"), "a b") == first
    assert fingerprint(compiler_at(two, "exit 1"), "a") != first


@needs_ops
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_sources_have_no_warnings(tmp_path: Path) -> None:
    """But for those that gcc 12 makes of its own headers."""
    for source in sources_of_ops():
        if source.suffix == ".cpp":
            flags = ["-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized"]
            command = ["g++", *COMPILE_FLAGS, *flags, "-fsyntax-only", str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
            assert done.stderr == ""
