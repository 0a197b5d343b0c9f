"""Times compiling and masks of sureact beside raw llguidance, in pairs: schema by schema, token by token.

python -m benchmarks.constraints.paired FOLDER --sample 1000 --json
"""

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.errors import SureactError
from sureact.evaluation.conformance.case_files import CaseFiles, opened_cases
from sureact.evaluation.conformance.cases import ConformanceCase
from sureact.evaluation.conformance.own_engine import OwnEngine
from sureact.evaluation.conformance.peer_engines import LlguidanceEngine
from sureact.evaluation.conformance.run import timed_cases
from sureact.evaluation.conformance.schema_engine import CompiledCase, SchemaPolicy
from sureact.evaluation.conformance.timing import percentiles
from sureact.evaluation.conformance.vocabularies import CaseVocabulary, read_case_vocabulary
from sureact.weights.gguf_conversion import convert_gguf

_T = TypeVar("_T")
_Pair = tuple[float, float]
"""Seconds of sureact and of raw llguidance."""

MAX_TOKENS = 100
"""Masks per schema, so that no long instance outweighs all others."""
_EVICTION = np.zeros(1 << 21, dtype=np.int64)
"""Read before each timed mask, as a model reads its weights: 16 MiB, more than the caches of a core hold."""


def main() -> None:
    """Time all pairs, and print medians, 99th percentiles and how they compare."""
    arguments = _parser().parse_args()
    store = ModelStore()
    folder = model_folder(resolve_model(arguments.model, store), store, convert=convert_gguf)
    with opened_cases(arguments.path) as files:
        compile_s, mask_s = _timed(files, read_case_vocabulary(folder), arguments.sample, cold=not arguments.warm)
    result = compared(compile_s, mask_s)
    lines = [f"{name}: {value}" for name, value in result.items()]
    print(json.dumps(result, indent=2) if arguments.json else "\n".join(lines))


def _timed(files: CaseFiles, vocabulary: CaseVocabulary, sample: int, *, cold: bool) -> tuple[list[_Pair], list[_Pair]]:
    own, raw = OwnEngine(vocabulary.vocabulary, SchemaPolicy()), LlguidanceEngine(vocabulary.vocabulary)
    is_timed = timed_cases(files.num_cases, sample)
    compile_s: list[_Pair] = []
    mask_s: list[_Pair] = []
    for file in files.files:
        for case in filter(is_timed, file.read(reorder=True)):
            try:
                compiled, seconds = run_both(partial(own.compile, case), partial(raw.compile, case))
            except SureactError:  # only what both compile can be compared
                continue
            compile_s.append(seconds)
            mask_s += _mask_times(*compiled, case, vocabulary, cold=cold)
    return compile_s, mask_s


def _mask_times(
    own: CompiledCase, raw: CompiledCase, case: ConformanceCase, vocabulary: CaseVocabulary, *, cold: bool
) -> Iterator[_Pair]:
    text = next((instance.text for instance in case.instances if instance.is_valid), "")
    walks = own.new_walk(), raw.new_walk()
    for token_id in vocabulary.encode(text)[:MAX_TOKENS] if text else ():
        yield run_both(walks[0].fill_mask, walks[1].fill_mask, cold=cold)[1]
        accepted = [walk.accept([token_id]) for walk in walks]
        if not all(accepted):
            return


def run_both(own: Callable[[], _T], raw: Callable[[], _T], *, cold: bool = False) -> tuple[tuple[_T, _T], _Pair]:
    """Run both in random order; return what they return, and the seconds they took."""
    results: dict[int, tuple[_T, float]] = {}
    for index in random.sample((0, 1), k=2):
        if cold:
            _EVICTION.sum()
        start = perf_counter()
        result = (own, raw)[index]()
        results[index] = (result, perf_counter() - start)
    return (results[0][0], results[1][0]), (results[0][1], results[1][1])


def compared(compile_s: list[_Pair], mask_s: list[_Pair]) -> dict[str, object]:
    """Return percentiles of both, and how they compare; the pairs are in seconds."""
    own_ms, raw_ms = (_percentiles(pair[index] * 1e3 for pair in compile_s) for index in (0, 1))
    own_us, raw_us = (_percentiles(pair[index] * 1e6 for pair in mask_s) for index in (0, 1))
    return {
        "schemas": len(compile_s),
        "masks": len(mask_s),
        "compile_ms": own_ms,
        "raw_compile_ms": raw_ms,
        "compile_ratio": {name: own_ms[name] / raw_ms[name] for name in ("p50", "p99")},
        "mask_us": own_us,
        "raw_mask_us": raw_us,
        "mask_p50_difference_us": own_us["p50"] - raw_us["p50"],
        "median_of_mask_differences_us": statistics.median((own - raw) * 1e6 for own, raw in mask_s),
    }


def _percentiles(values: Iterable[float]) -> dict[str, float]:
    return {name: value or 0.0 for name, value in percentiles(values).items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constraints.paired", description=__doc__)
    parser.add_argument("path", type=Path, metavar="PATH", help="as `sureact conformance PATH`")
    parser.add_argument("--sample", type=positive_int, default=1000, metavar="N", help="schemas (default: %(default)s)")
    parser.add_argument("--model", default=SMALL_MODEL, help="whose vocabulary (default: %(default)s)")
    parser.add_argument("--warm", action="store_true", help="do not flush the caches before each mask")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    main()
