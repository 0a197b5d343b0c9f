"""Compares the speed with what a user would pick instead: same model files, prompts, process and number of threads.

python -m benchmarks.peers --only transformers --json
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.peers.comparison import CPU_ROWS, Lengths, Peer, compare

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.errors import SureactError
from sureact.evaluation.machine import hardware, versions
from sureact.weights.gguf_conversion import convert_gguf

PEERS = ("transformers",)


def main() -> int:
    """Measure every row against every chosen peer and print the result."""
    arguments = _parser().parse_args()
    lengths = Lengths(decode_tokens=arguments.num_tokens, prefill_len=arguments.prefill_len, repeats=arguments.repeats)
    try:
        store = ModelStore()
        folder = model_folder(resolve_model(arguments.model, store), store, convert=convert_gguf)
        rows = [row for name in arguments.only or PEERS for row in _rows(name, folder, lengths)]
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    result = {"model": arguments.model, "versions": versions(), "hardware": hardware(), "rows": rows}
    print(json.dumps(result, indent=2) if arguments.json else _table(rows))
    return 0


def _rows(peer_name: str, folder: Path, lengths: Lengths) -> list[dict[str, object]]:
    peer, reason = _load_peer(folder)
    rows: list[dict[str, object]] = []
    for row in CPU_ROWS:
        print(f"{row.name} beside {peer_name} ...", file=sys.stderr, flush=True)
        rows.append(compare(str(folder), row, peer, lengths, device="cpu") | {"peer": peer_name})
        if reason:
            rows[-1]["reason"] = reason
    return rows


def _load_peer(folder: Path) -> tuple[Peer | None, str | None]:
    """Return the peer, or why there is none."""
    try:
        from benchmarks.peers.transformers_peer import TransformersPeer

        return TransformersPeer(folder, "cpu"), None
    except ImportError as error:
        return None, f"not installed: {error}"


def _table(rows: list[dict[str, object]]) -> str:
    lines = [f"{'row':<16}{'peer':<14}{'ours':>10}{'theirs':>10}{'ratio':>8}"]
    for row in rows:
        figures = "".join(
            f"{row[key]:>{width}.{digits}f}" if row[key] is not None else f"{'-':>{width}}"
            for key, width, digits in (("ours", 10, 1), ("theirs", 10, 1), ("ratio", 8, 2))
        )
        lines.append(
            f"{row['row']:<16}{row['peer']:<14}{figures}{'  ' + str(row['reason']) if 'reason' in row else ''}"
        )
    return "\n".join([*lines, "ours and theirs in tokens per second, medians of pairs"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", action="append", choices=PEERS, help="this peer only; repeatable (default: all)")
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument(
        "--num-tokens", type=positive_int, default=64, help="tokens decoded per run (default: %(default)s)"
    )
    parser.add_argument(
        "--prefill-len", type=positive_int, default=1024, help="tokens of the prefilled prompt (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=positive_int, default=5, help="pairs per row (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
