"""Who takes part: our engine, or a peer on the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.engine import Engine
    from sureact.evaluation.scoring.call_decoder import CallDecoder

PeerName = Literal["unconstrained", "llama.cpp", "outlines"]
PEERS: tuple[PeerName, ...] = get_args(PeerName)

CHAT = "chat"
"""The format of a single turn: the model's own chat template, calls between Qwen's tags."""
_GRAMMAR_FORMATS = (CHAT, "qwen_tool_call")
_PACKAGES: dict[PeerName, tuple[str, str]] = {
    "llama.cpp": ("llama_cpp", "pip install 'sureact[bench]'"),
    "outlines": ("outlines_core", "pip install outlines"),
}
"""What a peer imports, and the command that installs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A way to run a model."""

    lm: LanguageModel
    decoder: CallDecoder
    prompt_format: str
    quantization: str
    peer: PeerName | None = None
    """None for ours."""


def require_peer(peer: PeerName, prompt_format: str) -> None:
    """Raise unless a peer can take part; to be asked before a model is loaded.

    Raises:
        ConfigError: its package is not installed, or it does not write this format.
    """
    package, command = _PACKAGES.get(peer, ("", ""))
    if package and find_spec(package) is None:
        raise ConfigError(f"The peer {peer} needs the package {package}, which is not installed: {command}.")
    if peer != "unconstrained" and prompt_format not in _GRAMMAR_FORMATS:
        formats = " or ".join(f"--format {name}" for name in _GRAMMAR_FORMATS)
        raise ConfigError(
            f"The peer {peer} constrains calls as JSON; with {prompt_format!r} it cannot. Take {formats}."
        )


def own_contender(engine: Engine, prompt_format: str) -> Contender:
    """Return ours."""
    from sureact.evaluation.scoring.call_decoder import OwnDecoder

    return Contender(
        lm=engine, decoder=OwnDecoder(), prompt_format=prompt_format, quantization=engine.config.quantization
    )


def peer_contender(engine: Engine, prompt_format: str, peer: PeerName, gguf: Path | None = None) -> Contender:
    """Return a peer on the weights of an engine.

    Args:
        engine: runs `unconstrained` and `outlines`, and renders the prompts of all.
        prompt_format: as `require_peer` allows.
        peer: which.
        gguf: the file of the model for llama.cpp.

    Raises:
        ConfigError: llama.cpp was given no file, or cannot read it.
    """
    from sureact.evaluation.scoring.call_decoder import FreeDecoder, GrammarDecoder

    quantization = engine.config.quantization
    if peer == "unconstrained":
        return Contender(
            lm=engine, decoder=FreeDecoder(), prompt_format=prompt_format, quantization=quantization, peer=peer
        )
    if peer == "outlines":
        from sureact.evaluation.scoring.outlines_schema import OutlinesSchema

        decoder = GrammarDecoder(OutlinesSchema.of)
        return Contender(lm=engine, decoder=decoder, prompt_format=prompt_format, quantization=quantization, peer=peer)
    from sureact.evaluation.scoring.llama_cpp_model import LlamaCppModel, LlamaSchema

    if gguf is None:
        raise ConfigError("The peer llama.cpp runs a GGUF file: name the one of this model with --gguf FILE.")
    return Contender(
        lm=LlamaCppModel(engine, gguf),
        decoder=GrammarDecoder(LlamaSchema.of),
        prompt_format=prompt_format,
        quantization=gguf.name,
        peer=peer,
    )
