"""llama.cpp as a language model, with a library that says what it is told to."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sureact.agent.prompt_format import plain_text, template_text
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary
from sureact.errors import ConfigError, ConstraintCompileError, PromptTooLongError
from sureact.evaluation.scoring.llama_cpp_model import LlamaCppModel, LlamaSchema
from sureact.sampling_params import SamplingParams

TAG, EOG = 300, 301


class FakeLlama:
    """Bytes as tokens, one control token, and a text to say."""

    said: bytes = b""

    def __init__(self, path: str, **options: Any) -> None:
        if Path(path).read_text() == "broken":
            raise ValueError("not a model")
        self._model = SimpleNamespace(vocab="vocab")
        self.grammars: list[Any] = []

    def tokenize(self, text: bytes, *, add_bos: bool, special: bool) -> list[int]:
        assert not add_bos
        return [TAG] if special and text == b"<tool_call>" else [*text]

    def detokenize(self, ids: list[int]) -> bytes:
        return bytes(id_ for id_ in ids if id_ < 256)

    def generate(self, ids: list[int], *, temp: float, grammar: Any) -> Iterator[int]:
        assert temp == 0
        self.grammars.append(grammar)
        yield from (TAG if byte == ord("#") else byte for byte in self.said)
        yield EOG


class FakeGrammar:
    def __init__(self, text: str) -> None:
        self._grammar, self._root = text, "root"

    @classmethod
    def from_json_schema(cls, schema: str, *, verbose: bool) -> "FakeGrammar":
        if json.loads(schema).get("type") == "odd":
            raise KeyError("odd")
        return cls(schema)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LlamaCppModel:
    def accepts(vocab: object, text: bytes, root: bytes) -> bool:
        return b"broken" not in text

    library: Any = SimpleNamespace(
        Llama=FakeLlama,
        LlamaGrammar=FakeGrammar,
        llama_vocab_is_eog=lambda vocab, id_: id_ == EOG,  # pyright: ignore[reportUnknownLambdaType]
        llama_sampler_init_grammar=accepts,
        llama_sampler_free=lambda sampler: None,  # pyright: ignore[reportUnknownLambdaType]
    )
    monkeypatch.setitem(sys.modules, "llama_cpp", library)
    (tmp_path / "m.gguf").write_text("weights")
    return LlamaCppModel(ScriptedModel([], context_len=100), tmp_path / "m.gguf")


def test_texts_and_prompts_become_ids(model: LlamaCppModel) -> None:
    session = model.session()
    assert session.append(plain_text("a") + template_text("<tool_call>") + plain_text("<tool_call>")) == 13
    assert session.token_ids[:3] == [97, TAG, ord("<")]
    assert session.append("b") == 1
    assert session.append([5, 6]) == 2
    session.truncate(1)
    assert session.token_ids == [97]
    assert model.count_tokens("abc") == 3
    assert model.render_chat([{"role": "user", "content": "x"}]).text.startswith("<|im_start|>user")


@pytest.mark.parametrize(
    ("said", "params", "text", "reason", "stop"),
    [
        (b"abc", SamplingParams(), "abc", "stop", None),
        (b"abcdef", SamplingParams(max_tokens=3), "abc", "length", None),
        (b"ab:\ncd", SamplingParams(stop=":\n"), "ab", "stop", ":\n"),
        (b"ab:\ncd", SamplingParams(stop=":\n", include_stop=True), "ab:\n", "stop", ":\n"),
        (b"ab#cd", SamplingParams(stop=["zz", (TAG,)]), "ab", "stop", (TAG,)),
    ],
)
def test_a_text_ends_as_ours_would(
    model: LlamaCppModel, said: bytes, params: SamplingParams, text: str, reason: str, stop: object
) -> None:
    FakeLlama.said = said
    session = model.session()
    session.append("p")
    output = session.generate(params)
    assert (output.text, output.finish_reason, output.stop_reason) == (text, reason, stop)
    assert session.token_ids == [ord("p"), *text.encode()]
    assert list(output.token_ids) == [*text.encode()]


def test_a_stream_gives_the_whole_text(model: LlamaCppModel) -> None:
    FakeLlama.said = b"abc"
    (delta,) = model.session().stream(SamplingParams())
    assert delta.text == "abc"
    assert delta.output is not None


def test_a_schema_becomes_its_grammar_once(model: LlamaCppModel) -> None:
    FakeLlama.said = b"{}"
    session = model.session()
    session.append("p")
    for _ in range(2):
        session.generate(SamplingParams(), LlamaSchema.of({"type": "object"}))
    assert [grammar._grammar for grammar in model.model.grammars] == ['{"type": "object"}'] * 2
    assert model.model.grammars[0] is model.model.grammars[1]


@pytest.mark.parametrize(
    ("schema", "said"), [({"type": "odd"}, "refuses the schema"), ({"const": "broken"}, "cannot parse the grammar")]
)
def test_a_schema_that_it_does_not_take_is_an_error(model: LlamaCppModel, schema: dict[str, Any], said: str) -> None:
    with pytest.raises(ConstraintCompileError, match=said):
        model.session().generate(SamplingParams(), LlamaSchema.of(schema))


def test_no_other_engine_compiles_its_schemas() -> None:
    with pytest.raises(ConstraintCompileError, match="for llama"):
        LlamaSchema.of({}).compile(byte_vocabulary())


def test_the_context_is_respected(model: LlamaCppModel) -> None:
    session = model.session()
    with pytest.raises(PromptTooLongError):
        session.append("x" * 200)


def test_a_file_that_is_not_there_or_no_model_is_refused(model: LlamaCppModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        LlamaCppModel(ScriptedModel([]), tmp_path / "none.gguf")
    (tmp_path / "broken.gguf").write_text("broken")
    with pytest.raises(ConfigError, match="cannot load"):
        LlamaCppModel(ScriptedModel([]), tmp_path / "broken.gguf")
