"""Who takes part: our engine, or a peer on the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from sureact.agent.trace_header import fingerprint_of
from sureact.errors import ConfigError
from sureact.weights.fingerprint import file_fingerprint

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.engine import Engine
    from sureact.evaluation.scoring.call_decoder import CallDecoder
    from sureact.evaluation.scoring.foreign_loop import ForeignLoop

LoopPeerName = Literal["dspy", "qwen-agent", "qwen-agent-react"]
LOOP_PEERS: tuple[LoopPeerName, ...] = get_args(LoopPeerName)
"""Peers with prompts and a loop of their own; the others decode in ours."""
PeerName = Literal["unconstrained", "llama.cpp", "outlines", LoopPeerName]
PEERS: tuple[PeerName, ...] = get_args(PeerName)

CHAT = "chat"
"""The format of a single turn: the model's own chat template, calls between Qwen's tags."""
# Of a SHA-256, enough to tell the models of one disk apart.
_SHOWN_DIGITS = 16
_GRAMMAR_FORMATS = (CHAT, "qwen_tool_call")


class _Package(NamedTuple):
    """What a peer is."""

    imported: str
    distribution: str
    command: str
    """How to install it."""


_PACKAGES: dict[PeerName, _Package] = {
    "llama.cpp": _Package("llama_cpp", "llama_cpp_python", "pip install 'sureact[bench]'"),
    "outlines": _Package("outlines_core", "outlines_core", "pip install outlines"),
    "dspy": _Package("dspy", "dspy", "pip install 'sureact[dspy]'"),
    "qwen-agent": _Package("qwen_agent", "qwen-agent", "pip install qwen-agent"),
    "qwen-agent-react": _Package("qwen_agent", "qwen-agent", "pip install qwen-agent"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A way to run a model."""

    lm: LanguageModel
    decoder: CallDecoder
    prompt_format: str
    quantization: str
    peer: PeerName | None = None
    """None for ours."""
    engine: str = ""
    """Changes with the files of the model and the settings that tokens depend on."""
    loop: ForeignLoop | None = None
    """A loop with prompts of its own, in which nothing is decoded by `decoder`; None for ours."""

    @property
    def package(self) -> str:
        """Package of the peer with its version; empty where there is none."""
        package = None if self.peer is None else _PACKAGES.get(self.peer)
        if package is None:
            return ""
        try:
            return f"{package.distribution} {version(package.distribution)}"
        except PackageNotFoundError:
            return package.distribution


def require_peer(peer: PeerName, prompt_format: str) -> None:
    """Raise unless a peer can take part; to be asked before a model is loaded.

    Raises:
        ConfigError: its package is not installed, or it does not write this format.
    """
    package = _PACKAGES.get(peer)
    if package is not None and find_spec(package.imported) is None:
        raise ConfigError(
            f"The peer {peer} needs the package {package.imported}, which is not installed: {package.command}."
        )
    if peer in ("llama.cpp", "outlines") and prompt_format not in _GRAMMAR_FORMATS:
        formats = " or ".join(f"--format {name}" for name in _GRAMMAR_FORMATS)
        raise ConfigError(
            f"The peer {peer} constrains calls as JSON; with {prompt_format!r} it cannot. Take {formats}."
        )


def own_contender(engine: Engine, prompt_format: str) -> Contender:
    """Return ours."""
    from sureact.evaluation.scoring.call_decoder import OwnDecoder

    return _on_engine(engine, OwnDecoder(), prompt_format)


def peer_contender(engine: Engine, prompt_format: str, peer: PeerName, gguf: Path | None = None) -> Contender:
    """Return a peer on the weights of an engine.

    Args:
        engine: runs all but llama.cpp, for which it renders the prompts.
        prompt_format: as `require_peer` allows; a peer with prompts of its own has its own.
        peer: which.
        gguf: the file of the model for llama.cpp.

    Raises:
        ConfigError: llama.cpp was given no file, or cannot read it.
    """
    from sureact.evaluation.scoring.call_decoder import FreeDecoder, GrammarDecoder

    if peer in LOOP_PEERS:
        return _on_engine(engine, FreeDecoder(), peer, peer, _foreign_loop(engine, peer))
    if peer == "unconstrained":
        return _on_engine(engine, FreeDecoder(), prompt_format, peer)
    if peer == "outlines":
        from sureact.evaluation.scoring.outlines_schema import OutlinesSchema

        return _on_engine(engine, GrammarDecoder(OutlinesSchema.of), prompt_format, peer)
    from sureact.evaluation.scoring.llama_cpp_model import LlamaCppModel, LlamaSchema

    if gguf is None:
        raise ConfigError("The peer llama.cpp runs a GGUF file: name the one of this model with --gguf FILE.")
    lm = LlamaCppModel(engine, gguf)
    return Contender(
        lm=lm,
        decoder=GrammarDecoder(LlamaSchema.of),
        prompt_format=prompt_format,
        quantization=gguf.name,
        engine=f"{file_fingerprint(gguf)[:_SHOWN_DIGITS]}, context {lm.context_len}",
        peer=peer,
    )


def _on_engine(
    engine: Engine,
    decoder: CallDecoder,
    prompt_format: str,
    peer: PeerName | None = None,
    loop: ForeignLoop | None = None,
) -> Contender:
    config = engine.config
    files = fingerprint_of(engine) or "unknown files"
    settings = (config.device.partition(":")[0], config.dtype, config.kv_cache_dtype, config.determinism)
    shards = f"tensor_parallel_size {config.tensor_parallel_size}" if config.tensor_parallel_size > 1 else ""
    return Contender(
        lm=engine,
        decoder=decoder,
        prompt_format=prompt_format,
        quantization=config.quantization,
        engine=", ".join(filter(None, (files[:_SHOWN_DIGITS], *settings, f"context {engine.context_len}", shards))),
        peer=peer,
        loop=loop,
    )


def _foreign_loop(engine: Engine, peer: LoopPeerName) -> ForeignLoop:
    if peer == "dspy":
        from sureact.evaluation.scoring.dspy_loop import DspyLoop

        return DspyLoop(engine)
    from sureact.evaluation.scoring.qwen_agent_loop import QwenAgentLoop

    return QwenAgentLoop(engine, "fncall" if peer == "qwen-agent" else "react")
