"""Measures what bfloat16, int8 and int4 change: teacher-forced agreement and perplexity beside float32.

python -m benchmarks.quality --json
"""

import argparse
import json
import sys

import torch
from benchmarks.quality.reference import reference_texts
from benchmarks.quality.teacher_forcing import ReferenceText, Scores, score

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.cli.console import table_text
from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.config import Quantization
from sureact.errors import SureactError
from sureact.evaluation.machine import hardware, versions
from sureact.execution.input_moments import moments_of
from sureact.execution.settings import default_num_threads
from sureact.models.registry import build_model
from sureact.tokens.tokenizer import Tokenizer
from sureact.weights.gguf_conversion import convert_gguf
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config

NOTE = (
    "The weights of the catalogue's models had 4 to 8 bits before they were kept as bfloat16, so float32 here means "
    "those weights with float32 arithmetic."
)

FORMS: dict[str, tuple[Quantization, torch.dtype]] = {
    "float32": ("none", torch.float32),
    "bfloat16": ("none", torch.bfloat16),
    "int8": ("int8", torch.bfloat16),
    "int4": ("int4", torch.bfloat16),
}
"""Form of the matrices and dtype of keys and values, by name; the first is what the others are held against."""


def main() -> int:
    """Score every form and print the result."""
    arguments = _parser().parse_args()
    torch.set_num_threads(default_num_threads())
    try:
        rows = measure(arguments.model, num_prompts=arguments.prompts, num_tokens=arguments.tokens)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    result = {"model": arguments.model, "note": NOTE, "versions": versions(), "hardware": hardware(), "rows": rows}
    print(json.dumps(result, indent=2) if arguments.json else f"{_table(rows)}\n{NOTE}")
    return 0


def measure(model: str, *, num_prompts: int, num_tokens: int) -> list[dict[str, object]]:
    """Return a row per form: agreement with float32, perplexity, and its change beside float32, in percent.

    Raises:
        SureactError: the model cannot be loaded.
    """
    store = ModelStore()
    folder = model_folder(resolve_model(model, store), store, convert=convert_gguf)
    config = read_model_config(folder)
    tokenizer = Tokenizer(folder, num_logits=config.vocab_size)
    _say(f"Generating {num_prompts} x {num_tokens} tokens, unless they are kept ...")
    texts = reference_texts(model, tokenizer, num_prompts=num_prompts, num_tokens=num_tokens)
    scores: dict[str, Scores] = {}
    for name, (quantization, dtype) in FORMS.items():
        _say(f"Scoring {name} ...")
        weights = load_weights(
            folder,
            config,
            dtype=dtype,
            quantization=quantization,
            device=torch.device("cpu"),
            input_moments=moments_of(config, tokenizer, _say),
        )
        scores[name] = score(build_model(config, weights, _longest(texts)), dtype, texts)
    return [_row(name, found, scores["float32"]) for name, found in scores.items()]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _longest(texts: list[ReferenceText]) -> int:
    return max(len(text.prompt_ids) + len(text.continuation_ids) for text in texts)


def _row(form: str, scores: Scores, reference: Scores) -> dict[str, object]:
    return {
        "form": form,
        "positions": len(scores.picks),
        "agreement_percent": round(100 * scores.agreement(reference), 2),
        "perplexity": round(scores.perplexity, 4),
        "perplexity_change_percent": round(100 * (scores.perplexity / reference.perplexity - 1), 2),
    }


def _table(rows: list[dict[str, object]]) -> str:
    heading = ("form", "positions", "agreement %", "perplexity", "change %")
    return table_text([heading, *(tuple(map(str, row.values())) for row in rows)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--model", default=SMALL_MODEL, metavar="NAME", help="default: %(default)s")
    parser.add_argument("--prompts", type=positive_int, default=200, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--tokens", type=positive_int, default=64, metavar="N", help="scored after each prompt (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
