"""Measures a second start: the peak of the resident memory beside what it may be, and the time until it is ready.

python -m benchmarks.engine.memory --json
"""

import argparse
import importlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import get_args

from sureact.cli.console import table_text
from sureact.cli.model_options import SMALL_MODEL
from sureact.config import Quantization
from sureact.evaluation.machine import hardware, versions
from sureact.evaluation.prediction import PROGRAM_BYTES

MOST_TIMES_EXPECTED = 1.3
"""How much more than weights, KV budget and the program itself the peak may be."""

_PROMPT, _NUM_TOKENS = list(range(100, 250)) * 4, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What one start and a little work took."""

    import_s: float
    start_s: float
    """From the call of `Engine` until it is ready, after all imports."""
    peak_bytes: int
    """Largest resident memory of the process, pages of mapped files included."""
    weight_bytes: int
    kv_cache_bytes: int

    @property
    def expected_bytes(self) -> int:
        """Weights, KV budget and the program itself."""
        return self.weight_bytes + self.kv_cache_bytes + PROGRAM_BYTES


def main() -> int:
    """Start twice, each time in a new process, and print what the second start took."""
    arguments = _parser().parse_args()
    if arguments.child:
        print(json.dumps(asdict(start(arguments.model, arguments.quantization, arguments.kv_cache_gb))))
        return 0
    starts = [_start_apart(arguments) for _ in range(2)]
    found = starts[-1]
    if found is None:
        return 1
    ratio = found.peak_bytes / found.expected_bytes
    result = {**asdict(found), "expected_bytes": found.expected_bytes, "ratio": ratio}
    if arguments.json:
        print(json.dumps({**result, "versions": versions(), "hardware": hardware()}, indent=2))
    else:
        print(_table(found, ratio))
    return 0


def start(model: str, quantization: Quantization, kv_cache_gb: float) -> Start:
    """Start an engine in this process, let it read a prompt and write a text, and measure."""
    import time

    before = time.perf_counter()
    from sureact.engine import Engine
    from sureact.evaluation.prediction import sizes_of
    from sureact.sampling_params import SamplingParams

    importlib.import_module("transformers.models.auto.tokenization_auto")  # which a start imports, for seconds
    imported = time.perf_counter()
    with Engine(model, quantization=quantization, device="cpu", kv_cache_gb=kv_cache_gb) as engine:
        ready = time.perf_counter()
        engine.generate(_PROMPT, SamplingParams(max_tokens=_NUM_TOKENS, ignore_eos=True))
        return Start(
            import_s=imported - before,
            start_s=ready - imported,
            peak_bytes=_peak_bytes(),
            weight_bytes=sizes_of(model).weight_bytes(quantization),
            kv_cache_bytes=engine.config.kv_cache_bytes,
        )


def _peak_bytes() -> int:
    import resource

    # Linux counts in units of 1,024 bytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _start_apart(arguments: argparse.Namespace) -> Start | None:
    options = ["--model", arguments.model, "--quantization", arguments.quantization]
    options += ["--kv-cache-gb", str(arguments.kv_cache_gb), "--child"]
    command = [sys.executable, "-m", "benchmarks.engine.memory", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return Start(**json.loads(done.stdout)) if done.returncode == 0 else None


def _table(found: Start, ratio: float) -> str:
    rows = [
        ("", "found", "to reach"),
        ("peak of resident memory", f"{found.peak_bytes / 1e9:.2f} GB", f"{MOST_TIMES_EXPECTED} x expected"),
        ("expected: weights + KV budget + 400 MB", f"{found.expected_bytes / 1e9:.2f} GB", ""),
        ("ratio", f"{ratio:.2f}", f"{MOST_TIMES_EXPECTED}"),
        ("imports", f"{found.import_s:.2f} s", ""),
        ("start after imports", f"{found.start_s:.2f} s", "3 s (0.5B)"),
    ]
    return table_text(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.memory", description=__doc__)
    parser.add_argument("--model", default=SMALL_MODEL, metavar="NAME", help="default: %(default)s")
    parser.add_argument("--quantization", choices=get_args(Quantization), default="int8")
    parser.add_argument("--kv-cache-gb", type=float, default=0.2, metavar="GB", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
