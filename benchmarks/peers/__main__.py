"""Compares the speed with what a user would pick instead: the same model, prompts and number of threads.

python -m benchmarks.peers --only llama.cpp --row react_int8 --json
"""

import argparse
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from benchmarks.peers.arena import Arena, ModelFiles
from benchmarks.peers.rows import ROWS, Amounts, PeerName, Row
from benchmarks.peers.table import table

from sureact.cli.model_options import AGENT_MODEL, SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.errors import SureactError
from sureact.evaluation.machine import hardware, versions

MASKBENCH = Path(__file__).parents[2].parent / "shared" / "data" / "maskbench.tar.xz"
"""Taken if it lies there and no other schemas are named."""


def main() -> int:
    """Measure every chosen row against every chosen peer and print the result."""
    arguments = _parser().parse_args()
    amounts = Amounts()
    if arguments.repeats:
        amounts = Amounts(num_pairs=arguments.repeats, num_runs=arguments.repeats, num_batches=arguments.repeats)
    schemas = arguments.schemas or (MASKBENCH if MASKBENCH.is_file() else None)
    small = ModelFiles(name=arguments.model, gguf=arguments.gguf, fetches_gguf=arguments.fetch_gguf)
    large = ModelFiles(name=arguments.large_model, gguf=arguments.large_gguf, fetches_gguf=arguments.fetch_gguf)
    try:
        arena = Arena(small, large, schemas=schemas, amounts=amounts, num_threads=arguments.num_threads)
        chosen: list[tuple[Row, PeerName]] = [
            (row, peer) for row in ROWS for peer in row.peers if _is_chosen(row.name, peer, arguments)
        ]
        rows: list[dict[str, object]] = []
        for row, peer in chosen:
            print(f"{row.name} beside {peer} ...", file=sys.stderr, flush=True)
            rows.append(arena.measure(row, peer))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)  # a run that is cut short keeps what it measured
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    result = {
        "model": arguments.model,
        "large_model": arguments.large_model,
        "schemas": schemas.name if schemas else "own tools",
        "num_threads": arena.num_threads,
        "versions": versions() | {name: _version(name) for name in ("llama_cpp_python", "outlines_core")},
        "hardware": hardware(),
        "rows": rows,
    }
    print(json.dumps(result, indent=2) if arguments.json else table(rows))
    return 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _is_chosen(row: str, peer: str, arguments: argparse.Namespace) -> bool:
    return row in (arguments.row or [row]) and peer in (arguments.only or [peer])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=get_args(PeerName), help="this peer only; repeatable (default: all)"
    )
    parser.add_argument(
        "--row", action="append", choices=[row.name for row in ROWS], help="this row only; repeatable (default: all)"
    )
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument("--large-model", default=AGENT_MODEL, help="of decode_int4_1.5b (default: %(default)s)")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="the model's GGUF file, which llama.cpp reads")
    parser.add_argument("--large-gguf", type=Path, metavar="FILE", help="the larger model's GGUF file")
    parser.add_argument(
        "--fetch-gguf", action="store_true", help="get the GGUF files again: a pull does not keep them (network)"
    )
    parser.add_argument(
        "--schemas",
        type=Path,
        metavar="PATH",
        help="folder or tar archive of MaskBench files, whose function calls are taken (default: the archive in "
        "../shared/data if there is one, else a dozen tools of our own)",
    )
    parser.add_argument("--num-threads", type=positive_int, metavar="N", help="of everybody (default: physical cores)")
    parser.add_argument(
        "--repeats", type=positive_int, metavar="N", help="pairs per row (default: 5; 2 where one takes minutes)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
