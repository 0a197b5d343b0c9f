"""Draws decoding speed by batch and by context, and where the time of an agent's turns goes, into PNG files.

python -m benchmarks.engine.plots
"""

from __future__ import annotations

import argparse
import statistics
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.errors import SureactError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.engine import Engine
    from sureact.evaluation.bench_react import ReactMeasurement
    from sureact.evaluation.react_script import Turn

RESULTS = Path(__file__).parents[1] / "results"
BATCH_SIZES = (1, 2, 4, 8, 16)
CONTEXT_LENS = (128, 256, 512, 1024, 2048, 4096, 8192)
QUANTIZATIONS = ("int8", "int4")
BATCH_CONTEXT_LEN = 128


class Curve(NamedTuple):
    """Tokens per second at some sizes."""

    label: str
    sizes: Sequence[int]
    tokens_per_s: Sequence[float]


def main() -> int:
    """Measure and draw."""
    arguments = _parser().parse_args()
    if find_spec("matplotlib") is None:
        print("Error: plots need matplotlib; `pip install 'sureact[bench]'` brings it.", file=sys.stderr)
        return 1
    try:
        paths = draw_all(arguments.model, arguments.output, num_tokens=arguments.num_tokens, repeats=arguments.repeats)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print("\n".join(map(str, paths)))
    return 0


def draw_all(model: str, folder: Path, *, num_tokens: int, repeats: int) -> list[Path]:
    """Measure everything and return the files."""
    from sureact.engine import Engine

    by_batch: list[Curve] = []
    by_context: list[Curve] = []
    for quantization in QUANTIZATIONS:
        # Without drafts: how many tokens they save depends on the text, and random prompts give them none.
        with Engine(model, quantization=quantization, device="cpu", max_draft_len=0) as engine:
            by_batch.append(batch_curve(engine, quantization, num_tokens))
            by_context.append(context_curve(engine, quantization, num_tokens))
    with Engine(model, device="cpu") as engine:
        from sureact.evaluation.bench_react import measure_react
        from sureact.evaluation.react_script import NUM_TURNS

        measured = measure_react(engine, num_turns=NUM_TURNS, repeats=repeats)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        draw_curves(by_batch, "requests decoding together", folder / "decode_by_batch.png"),
        draw_curves(by_context, "tokens of context", folder / "decode_by_context.png"),
        draw_turns(measured, folder / "react_turns.png"),
    ]


def batch_curve(engine: Engine, label: str, num_tokens: int, sizes: Sequence[int] = BATCH_SIZES) -> Curve:
    """Measure the speed of all requests together."""
    return Curve(label, sizes, [_decode_speed(engine, size, BATCH_CONTEXT_LEN, num_tokens) for size in sizes])


def context_curve(engine: Engine, label: str, num_tokens: int, sizes: Sequence[int] = CONTEXT_LENS) -> Curve:
    """Measure the speed of one request, at contexts that the engine holds."""
    fitting = [size for size in sizes if size + num_tokens < engine.context_len]
    return Curve(label, fitting, [_decode_speed(engine, 1, size, num_tokens) for size in fitting])


def draw_curves(curves: Sequence[Curve], size_label: str, path: Path) -> Path:
    """Draw tokens per second over sizes that double."""
    figure, axes = _new_figure()
    for curve in curves:
        axes.plot(curve.sizes, curve.tokens_per_s, marker="o", label=curve.label)
    axes.set_xscale("log", base=2)
    sizes = curves[0].sizes
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(size_label)
    axes.set_ylabel("tokens per second")
    axes.legend()
    return _saved(figure, path)


def draw_turns(measured: ReactMeasurement, path: Path) -> Path:
    """Draw a bar per turn, split into prefill, decode, masks and the rest; medians over the runs."""
    turns = list(zip(*(run.turns for run in measured.runs), strict=True))
    parts = [_parts(same_turn) for same_turn in turns]
    names = [*(f"turn {index + 1}" for index in range(len(turns) - 1)), "answer"]
    figure, axes = _new_figure()
    bottom = [0.0] * len(turns)
    for part in parts[0]:
        values = [seconds[part] for seconds in parts]
        axes.bar(names, values, bottom=bottom, label=part)
        bottom = [below + value for below, value in zip(bottom, values, strict=True)]
    axes.set_ylabel("seconds")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(parts[0]), frameon=False)
    return _saved(figure, path)


def _parts(runs: Sequence[Turn]) -> dict[str, float]:
    """Split the median time of one turn over several runs; the engine counts masks as decoding."""
    seconds, prefill, decode, mask = (
        statistics.median(values)
        for values in zip(
            *((turn.seconds, turn.timings.prefill_s, turn.timings.decode_s, turn.timings.mask_s) for turn in runs),
            strict=True,
        )
    )
    decode = max(decode - mask, 0.0)
    return {
        "prefill": prefill,
        "decode": decode,
        "mask": mask,
        "other": max(seconds - prefill - decode - mask, 0.0),
    }


def _decode_speed(engine: Engine, num_requests: int, context_len: int, num_tokens: int) -> float:
    from sureact.evaluation.bench import random_prompt
    from sureact.sampling_params import SamplingParams

    prompts = [random_prompt(engine.vocabulary, context_len, seed=seed) for seed in range(num_requests)]
    params = SamplingParams(max_tokens=num_tokens + 1, ignore_eos=True)
    before = engine.stats()
    engine.generate(prompts, params)
    after = engine.stats()
    # Steps that also read a prompt count as prefill.
    return (after.decode_tokens - before.decode_tokens) / (after.decode_s - before.decode_s)


def _new_figure() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    # Without pyplot, which would look for a display.
    figure: Any = Figure(figsize=(7, 4), layout="constrained")
    return figure, figure.subplots()


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.plots", description=__doc__)
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument(
        "--num-tokens", type=positive_int, default=32, metavar="N", help="tokens per request (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=positive_int, default=3, metavar="N", help="runs of an agent (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="where the files go (default: benchmarks/results)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
