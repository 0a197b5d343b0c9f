import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.peers.contestant import SchemaRefusedError
from benchmarks.peers.llama_cpp_peer import LlamaCppPeer

EOS = 0
GRAMMAR_OF = {"true": "any", "false": "", "null": "broken"}


class FakeLlama:
    """Counts up from the last id of the prompt, and ends a text under a grammar after the second id."""

    def __init__(self, path: str, **options: Any) -> None:
        self.options = {"path": path, **options}
        self._model = SimpleNamespace(vocab="vocab")

    def generate(self, prompt: list[int], *, temp: float, grammar: Any) -> Iterator[int]:
        assert temp == 0
        yield prompt[-1] + 1
        yield prompt[-1] + 2
        if grammar is not None:
            yield EOS
        yield from range(prompt[-1] + 3, 10**6)

    def tokenize(self, text: bytes, *, add_bos: bool) -> list[int]:
        assert not add_bos
        return [*text]

    def detokenize(self, token_ids: list[int]) -> bytes:
        return bytes(token_id for token_id in token_ids if token_id != EOS)


class FakeGrammar:
    def __init__(self, text: str) -> None:
        self._grammar, self._root = text, "root"

    @classmethod
    def from_json_schema(cls, schema: str, *, verbose: bool) -> "FakeGrammar":
        return cls(GRAMMAR_OF[schema])


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> LlamaCppPeer:
    library = SimpleNamespace(
        Llama=FakeLlama,
        LlamaGrammar=FakeGrammar,
        llama_vocab_is_eog=lambda vocab, token_id: token_id == EOS,  # pyright: ignore[reportUnknownLambdaType]
        llama_sampler_init_grammar=lambda vocab, text, root: text != b"broken",  # pyright: ignore
        llama_sampler_free=lambda sampler: None,  # pyright: ignore[reportUnknownLambdaType]
    )
    monkeypatch.setitem(sys.modules, "llama_cpp", library)  # pyright: ignore[reportArgumentType]
    return LlamaCppPeer(Path("model.gguf"), 3)


def test_free_text_is_as_long_as_asked_for(peer: LlamaCppPeer) -> None:
    token_ids, is_complete, timings = peer.generate([*b"AB"], 3)
    assert token_ids == [*b"CDE"]
    assert not is_complete
    assert timings.prefill_s >= 0
    assert timings.decode_s >= 0


def test_text_under_a_schema_ends_with_its_grammar(peer: LlamaCppPeer) -> None:
    token_ids, is_complete, _ = peer.generate([*b"AB"], 9, schema="true")
    assert token_ids == [*b"CD", EOS]
    assert is_complete
    assert peer.text_of(token_ids) == "CD"
    assert not peer.generate([*b"AB"], 2, schema="true").is_complete


@pytest.mark.parametrize(("schema", "said"), [("null", "cannot parse the grammar"), ("{}", "KeyError: '{}'")])
def test_schemas_that_it_cannot_take_are_refused(peer: LlamaCppPeer, schema: str, said: str) -> None:
    with pytest.raises(SchemaRefusedError, match=said):
        peer.generate([1], 1, schema=schema)


def test_texts_have_no_token_of_their_own_in_front(peer: LlamaCppPeer) -> None:
    assert peer.ids_of("ab") == [*b"ab"]


def test_without_the_package_it_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ImportError):
        LlamaCppPeer(Path("model.gguf"), 1)
