"""Builds the C++ ops with the machine's compiler, once, keeps the result on disk and loads it.

Nothing is ever built for another machine: the file is named after the sources, the compiler and what the processor can
do.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from sureact_kernels.errors import KernelInputError

_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, list[type]] = {
    "ask_for_large_pages": [_POINTER, _LONG, _INT],
    "int8_product": [_POINTER, _LONG, *[_POINTER] * 5, _LONG, _LONG, _INT],
    "pack_int8": [_POINTER, _LONG, _LONG, _POINTER, _POINTER, _INT],
    "int4_product": [_POINTER, _LONG, *[_POINTER] * 3, _LONG, _LONG, _INT],
    "pack_int4": [_POINTER, _POINTER, _LONG, _LONG, _POINTER, _INT],
    "rms_norm": [_POINTER, _POINTER, _FLOAT, _POINTER, _LONG, _LONG, _INT],
    "add_rms_norm": [*[_POINTER] * 3, _FLOAT, _POINTER, _POINTER, _LONG, _LONG, _INT],
    "silu_and_mul": [_POINTER, _POINTER, _LONG, _LONG, _INT],
    "qk_norm_rope_store": [*[_POINTER] * 8, _FLOAT, _POINTER, *[_LONG] * 4, _INT],
    "paged_attention": [*[_POINTER] * 6, _FLOAT, _POINTER, *[_LONG] * 6, _INT],
}
"""What each function takes. A pointer is a tensor's `data_ptr()`; last come the threads."""

_NEED_MEMORY = ("int8_product", "int4_product", "paged_attention")
"""These return False, having done nothing, when there is no memory left; the others return nothing."""

_NEEDED_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
COMPILE_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-fPIC", "-fno-exceptions", "-fno-rtti")
_EXACT = ("-ffp-contract=off",)
"""Sums and products are fused only where the source says so: the bits must not be the compiler's choice."""
_LINK = ("-shared", "-nodefaultlibs", "-lc", "-lm")
"""Without libgomp: torch brings its own, and two would each keep a thread per core."""
_TIMEOUT_S = 300
_KEPT_S = 60 * 60 * 24 * 60

_logger = logging.getLogger(__name__)


class Unavailable(Exception):  # noqa: N818  it says why, and nobody sees it as an error
    """Why the ops cannot be built or used here."""


def load_ops() -> ctypes.CDLL:
    """Return the ops, built if they do not lie on the disk yet.

    Raises:
        Unavailable: they cannot be built or used here.
        KernelInputError: SUREACT_KERNELS has no meaning.
    """
    path = path_of_ops()
    try:
        if not path.exists():
            _build(_compiler(), path)
        # Its functions must be found when the library is loaded, which was linked without any.
        ctypes.CDLL(_openmp_of_torch(), mode=ctypes.RTLD_GLOBAL)
        loaded = ctypes.CDLL(str(path))
        for name, arguments in _SIGNATURES.items():
            function = getattr(loaded, f"sureact_{name}")
            function.argtypes, function.restype = arguments, ctypes.c_bool if name in _NEED_MEMORY else None
    except (OSError, AttributeError) as error:
        raise Unavailable(f"{path} cannot be made or loaded: {error}") from error
    return loaded


def path_of_ops() -> Path:
    """Return where the ops for this machine lie or will lie; raises like `load_ops`."""
    if is_reference_wanted():
        raise Unavailable("SUREACT_KERNELS is 'reference'.")
    features = _processor_features()
    _openmp_of_torch()
    return _build_folder() / f"{fingerprint(_compiler(), features)}.so"


def is_reference_wanted() -> bool:
    """Tell whether SUREACT_KERNELS asks for the torch references; raises as `is_version_required` does."""
    return _wish() == "reference"


def is_version_required() -> bool:
    """Tell whether SUREACT_KERNELS forbids the torch references where versions should compute.

    Raises:
        KernelInputError: SUREACT_KERNELS has no meaning.
    """
    return _wish() == "required"


def _wish() -> str:
    wish = os.environ.get("SUREACT_KERNELS", "")
    if wish not in ("", "reference", "required"):
        raise KernelInputError(f"SUREACT_KERNELS is {wish!r}; it must be 'reference', 'required' or unset.")
    return wish


def _compiler() -> str:
    found = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("c++")
    if found is None:
        raise Unavailable("there is no C++ compiler; install g++.")
    return found


def _processor_features() -> str:
    """Return what Linux says of the first core, checked for what the sources use."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unavailable(f"they are for Linux on x86-64; this is {platform.system()} on {platform.machine()}.")
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    present = flags.group(1) if flags else ""
    missing = [feature for feature in _NEEDED_FEATURES if feature not in present.split()]
    if missing:
        raise Unavailable(f"the processor lacks {', '.join(missing)}.")
    return present


def _openmp_of_torch() -> str:
    match = re.search(r"/\S*libgomp\S*", Path("/proc/self/maps").read_text(encoding="utf-8"))
    if match is None:
        raise Unavailable("this torch has no libgomp, whose threads they share.")
    return match.group(0)


def sources_of_ops() -> list[Path]:
    """Return the C++ files and their headers."""
    return sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".cpp", ".h"))


def fingerprint(compiler: str, features: str) -> str:
    """Return a name for what `compiler` makes of the sources on a processor with those features."""
    digest = hashlib.sha256(repr((_version_of(compiler), features, COMPILE_FLAGS, _EXACT, _LINK)).encode())
    for path in sources_of_ops():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


@cache  # asked by `path_of_ops` and by `load_ops` at every start
def _version_of(compiler: str) -> str:
    try:
        return subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{compiler} does not run: {error}") from error


def _build_folder() -> Path:
    """Return `kernels` in the folder that sureact keeps everything in: `SUREACT_HOME`, else in the user's cache."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    default = (cache_folder if cache_folder.is_absolute() else Path.home() / ".cache") / "sureact"
    return Path(os.environ.get("SUREACT_HOME") or default).expanduser() / "kernels"


def _build(compiler: str, path: Path) -> None:
    """Build beside `path` and move the result there, so that no other process finds half of it."""
    _logger.info("Building the CPU ops with %s (once)", compiler)
    path.parent.mkdir(parents=True, exist_ok=True)
    sources = [source for source in sources_of_ops() if source.suffix == ".cpp"]
    objects = [f"{source.stem}.o" for source in sources]
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="unfinished-") as folder:
        commands = [
            [compiler, *COMPILE_FLAGS, *_EXACT, "-w", "-c", str(source), "-o", target]
            for source, target in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(_run, folder=folder), commands))
        _run([compiler, *objects, *_LINK, "-o", path.name], folder)
        (Path(folder) / path.name).replace(path)
    _remove_outdated(path.parent)


def _remove_outdated(folder: Path) -> None:
    """Remove what has not been built or loaded for long; other versions of sureact may still use what is younger."""
    for path in folder.glob("*.so"):
        with suppress(OSError):
            if time.time() - path.stat().st_atime > _KEPT_S and time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()


def _run(command: list[str], folder: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the compiler took more than {_TIMEOUT_S} seconds.") from error
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise Unavailable(f"the compiler refused them: {first}")
