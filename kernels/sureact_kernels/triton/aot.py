# pyright: basic
"""Compilation ahead of time, on a machine without a GPU: do kernels compile, and what does one thread of them take.

No kernel lives here. Each module beside this one lists in `AOT` what it launches by default.
"""

import importlib
import pkgutil
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compile_source
from triton.runtime.jit import JITFunction

FP_FUSION = True
"""Products and sums become fused ones. Said out loud because it changes bits and Triton's default will change."""


class AotCase(NamedTuple):
    """A kernel with the types and the constants that it is launched with."""

    name: str
    """The op, the dtype and the sizes, in words: `rms_norm bfloat16 4096`."""
    kernel: Any
    """What `triton.jit` made."""
    signature: dict[str, str]
    """Type of every parameter, in order: `*bf16`, `*fp32`, `*i32`, `i32`, `i64`, `fp32` or `constexpr`.

    Pointers count as multiples of 16 bytes, as torch allocates. Of an integer `i32:16` says that it is a multiple of
    16, as Triton finds out at a launch; one that is 1 is a `constexpr` to Triton.
    """
    constexprs: dict[str, Any]
    """Values of the constexpr ones."""
    num_warps: int = 4
    num_stages: int = 3


class Compiled(NamedTuple):
    """What one thread, or with `shared_bytes` one block, of a compiled kernel takes."""

    registers: int
    stack_bytes: int
    """Memory of a thread that did not fit into registers: spills, and arrays that are indexed by a variable."""
    local_bytes: int
    shared_bytes: int
    seconds: float
    """That the compilation took; next to none if Triton's cache has the kernel."""


def cases() -> list[AotCase]:
    """Return `AOT` of every module in this package, in order of the modules' names."""
    package = Path(__file__).parent
    names = sorted(module.name for module in pkgutil.iter_modules([str(package)]))
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    return [case for module in modules for case in getattr(module, "AOT", ())]


def compile_case(case: AotCase, arch: int) -> Compiled:
    """Compile a kernel for a GPU that need not be there.

    Args:
        case: what to compile.
        arch: compute capability times ten: 80 for an A100, 90 for an H100 or H200.

    Raises:
        RuntimeError: `TRITON_INTERPRET` was set when the kernel was imported, so that there is nothing to compile.
    """
    if not isinstance(case.kernel, JITFunction):
        raise RuntimeError(f"{case.name}: TRITON_INTERPRET is set; kernels compile in a process without it")
    start = time.perf_counter()
    options = {"num_warps": case.num_warps, "num_stages": case.num_stages, "enable_fp_fusion": FP_FUSION}
    kernel = compile_source(source_of(case), target=GPUTarget("cuda", arch, 32), options=options)
    seconds = time.perf_counter() - start
    usage = _resource_usage(kernel.asm["cubin"])
    return Compiled(usage["REG"], usage["STACK"], usage["LOCAL"], kernel.metadata.shared, seconds)


def source_of(case: AotCase) -> ASTSource:
    """Return what Triton compiles; a ValueError says that the case does not fit its kernel."""
    names = list(case.kernel.arg_names)
    if list(case.signature) != names:
        raise ValueError(
            f"{case.name}: the signature names {list(case.signature)}, the kernel's parameters are {names}"
        )
    constants = {name for name, kind in case.signature.items() if kind == "constexpr"}
    if constants != set(case.constexprs):
        raise ValueError(f"{case.name}: constexpr are {sorted(constants)}, values are for {sorted(case.constexprs)}")
    signature = {name: kind.removesuffix(":16") for name, kind in case.signature.items()}
    multiples = [i for i, kind in enumerate(case.signature.values()) if kind.startswith("*") or kind.endswith(":16")]
    attributes = {(i,): [["tt.divisibility", 16]] for i in multiples}
    return ASTSource(case.kernel, signature, constexprs=dict(case.constexprs), attrs=attributes)


def _resource_usage(cubin: bytes) -> dict[str, int]:
    """Read registers, stack and local memory with the tool that ships inside Triton."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        listing = subprocess.run(
            [knobs.nvidia.cuobjdump.path, "-res-usage", str(path)], check=True, capture_output=True, text=True
        )
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", listing.stdout)}
    if len(found) < 3:
        raise RuntimeError(f"cuobjdump names no registers, stack or local memory: {listing.stdout!r}")
    return found
