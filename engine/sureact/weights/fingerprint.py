"""Tells models apart by their files, wherever these lie and whenever they were written."""

import hashlib
from pathlib import Path

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")
_NUM_SAMPLES = 64
_SAMPLE_BYTES = 4096


def model_fingerprint(folder: Path) -> str:
    """Return a hash of a model's config, tokenizer and weights.

    Of each weight file only its size and samples are read, the header among them: to read all of it would take as long
    as to load it, and training changes weights everywhere.
    """
    digest = hashlib.sha256()
    for name in ("config.json", *_TOKENIZER_FILES):
        path = folder / name
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(_samples(path))
    return digest.hexdigest()


def file_fingerprint(path: Path) -> str:
    """Return a hash of the size and samples of one file of weights."""
    return hashlib.sha256(_samples(path)).hexdigest()


def _samples(path: Path) -> bytes:
    num_bytes = path.stat().st_size
    samples = [f"weights {num_bytes}\n".encode()]
    with path.open("rb") as file:
        for index in range(_NUM_SAMPLES):
            file.seek(num_bytes * index // _NUM_SAMPLES)
            samples.append(file.read(_SAMPLE_BYTES))
    return b"".join(samples)
