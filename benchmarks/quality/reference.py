"""The texts that are scored: the model's own greedy continuations, kept on disk."""

import hashlib
import json
from pathlib import Path

from benchmarks.quality.prompts import prompts
from benchmarks.quality.teacher_forcing import ReferenceText

from sureact.engine import Engine
from sureact.errors import ConfigError
from sureact.home import home_folder
from sureact.sampling_params import SamplingParams
from sureact.tokens.tokenizer import Tokenizer


def reference_texts(model: str, tokenizer: Tokenizer, *, num_prompts: int, num_tokens: int) -> list[ReferenceText]:
    """Return prompts with what the model in bfloat16 says after them, from disk if it was asked before.

    bfloat16, because the texts only have to be ones that the model would write, and float32 takes three times as long.

    Args:
        model: as `Engine` takes it.
        tokenizer: of that model.
        num_prompts: how many.
        num_tokens: of each continuation; a text goes on behind the end that the model gives it.

    Raises:
        ConfigError: the model has no chat template.
    """
    if tokenizer.chat_template is None:
        raise ConfigError(f"{model} has no chat template, which the prompts need. Take an instruct model.")
    prompt_ids = [tokenizer.encode_prompt(prompt) for prompt in prompts(tokenizer.chat_template, num_prompts)]
    path = _cache_path(model, prompt_ids, num_tokens)
    if path.is_file():
        continuations: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))
    else:
        continuations = _generate(model, prompt_ids, num_tokens)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(continuations), encoding="utf-8")
    # Sorted, so that neighbors begin alike and scoring computes what they share once.
    return [ReferenceText(*pair) for pair in sorted(zip(prompt_ids, continuations, strict=True))]


def _cache_path(model: str, prompt_ids: list[list[int]], num_tokens: int) -> Path:
    identity = json.dumps([model, prompt_ids, num_tokens])
    return home_folder() / "quality" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def _generate(model: str, prompt_ids: list[list[int]], num_tokens: int) -> list[list[int]]:
    params = SamplingParams(max_tokens=num_tokens, ignore_eos=True)
    with Engine(model, quantization="none", dtype="bfloat16", device="cpu", max_model_len=4096) as engine:
        outputs = engine.generate(prompt_ids, params)
    return [list(output.token_ids) for output in outputs]
