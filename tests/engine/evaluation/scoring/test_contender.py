"""Peers are refused where they cannot take part, before a model is loaded."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.scoring import contender as contender_module
from sureact.evaluation.scoring.call_decoder import FreeDecoder, GrammarDecoder, OwnDecoder
from sureact.evaluation.scoring.contender import PeerName, own_contender, peer_contender, require_peer

CONFIG = {
    "quantization": "int8",
    "device": "cpu",
    "dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16",
    "determinism": "strict",
    "tensor_parallel_size": 1,
}


def engine(fingerprint: str = "f" * 64, context_len: int = 100, **config: object) -> Any:
    return SimpleNamespace(
        name="m",
        config=SimpleNamespace(**{**CONFIG, **config}),
        context_len=context_len,
        session_origin=SimpleNamespace(fingerprint=fingerprint),
    )


ENGINE = engine()


@pytest.mark.parametrize(
    ("peer", "package"),
    [
        ("llama.cpp", "llama_cpp"),
        ("outlines", "outlines_core"),
        ("dspy", "dspy"),
        ("qwen-agent", "qwen_agent"),
        ("qwen-agent-react", "qwen_agent"),
    ],
)
def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, peer: PeerName, package: str) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(contender_module, "find_spec", nothing)
    with pytest.raises(ConfigError, match=f"needs the package {package}, which is not installed: pip install"):
        require_peer(peer, "chat")


def test_a_peer_that_writes_json_only_is_refused_another_format() -> None:
    with pytest.raises(ConfigError, match="--format chat or --format qwen_tool_call"):
        require_peer("outlines", "fields")
    require_peer("outlines", "qwen_tool_call")
    require_peer("unconstrained", "fields")
    require_peer("dspy", "fields")


def test_contenders_say_who_they_are() -> None:
    own = own_contender(ENGINE, "fields")
    assert (own.peer, own.quantization, type(own.decoder)) == (None, "int8", OwnDecoder)
    free = peer_contender(ENGINE, "fields", "unconstrained")
    assert (free.peer, type(free.decoder)) == ("unconstrained", FreeDecoder)
    outlines = peer_contender(ENGINE, "chat", "outlines")
    assert (outlines.lm, type(outlines.decoder)) == (ENGINE, GrammarDecoder)


def test_a_contender_is_known_by_the_files_of_its_model_and_by_what_tokens_depend_on() -> None:
    assert own_contender(ENGINE, "fields").engine == f"{'f' * 16}, cpu, bfloat16, bfloat16, strict, context 100"
    others = [
        engine(fingerprint="e" * 64),
        engine(context_len=50),
        engine(dtype="float32"),
        engine(kv_cache_dtype="float8_e4m3"),
        engine(determinism="fast"),
        engine(device="cuda:0"),
        engine(tensor_parallel_size=2),
    ]
    for peer in ("unconstrained", "outlines", "dspy"):
        assert len({peer_contender(each, "chat", peer).engine for each in (ENGINE, *others)}) == len(others) + 1
    assert own_contender(engine(device="cuda:0"), "fields").engine == own_contender(engine(device="cuda:1"), "f").engine


@pytest.mark.parametrize(
    ("peer", "loop"),
    [("dspy", "DspyLoop"), ("qwen-agent", "QwenAgentLoop"), ("qwen-agent-react", "QwenAgentLoop")],
)
def test_a_peer_with_a_loop_of_its_own_has_its_own_format(peer: PeerName, loop: str) -> None:
    if peer != "dspy" and find_spec("qwen_agent") is None:
        pytest.skip("qwen-agent is not installed")
    contender = peer_contender(ENGINE, "fields", peer)
    assert type(contender.loop).__name__ == loop
    assert (contender.lm, contender.peer, contender.prompt_format) == (ENGINE, peer, peer)


def test_a_peer_is_known_by_the_version_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    dspy = peer_contender(ENGINE, "fields", "dspy")
    assert dspy.package == f"dspy {version('dspy')}"
    assert own_contender(ENGINE, "fields").package == peer_contender(ENGINE, "fields", "unconstrained").package == ""
    monkeypatch.setattr(contender_module, "version", missing)
    assert dspy.package == "dspy"


def test_llama_cpp_needs_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--gguf FILE"):
        peer_contender(ENGINE, "chat", "llama.cpp")
