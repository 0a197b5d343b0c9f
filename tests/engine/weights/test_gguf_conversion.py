import errno
import json
from pathlib import Path

import pytest
import torch
from gguf import GGUFWriter, TokenType
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from sureact.errors import CheckpointError, DiskSpaceError, UnsupportedModelError
from sureact.weights import gguf_conversion
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.gguf_conversion import convert_gguf, without_tokens
from sureact.weights.model_config import read_model_config
from sureact.weights.parameter_names import map_parameters

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"]
LETTERS = ["a", "b", "c", "ab"]
PADDING = ["[PAD8]", "[PAD9]"]
TOKENS = LETTERS + CONTROL + PADDING
HIDDEN, INTERMEDIATE, KV_ROWS = 32, 64, 16


def write_gguf(path: Path, *, architecture: str = "qwen2") -> Path:
    """Write a random model with ten tokens, the last two of them unused, as published Qwen files have them."""
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(TOKENS)
    types = [TokenType.NORMAL] * 4 + [TokenType.CONTROL] * 3 + [TokenType.USER_DEFINED] + [TokenType.UNUSED] * 2
    writer.add_token_types(types)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_bos_token_id(TOKENS.index("<|endoftext|>"))
    writer.add_pad_token_id(TOKENS.index("<|endoftext|>"))
    _add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensors(writer: GGUFWriter) -> None:
    shapes = {"token_embd.weight": (len(TOKENS), HIDDEN), "output.weight": (len(TOKENS), HIDDEN)}
    shapes |= {f"blk.0.{name}.weight": (INTERMEDIATE, HIDDEN) for name in ("ffn_gate", "ffn_up")}
    shapes |= {"blk.0.ffn_down.weight": (HIDDEN, INTERMEDIATE), "blk.0.attn_output.weight": (HIDDEN, HIDDEN)}
    for name, rows in {"attn_q": HIDDEN, "attn_k": KV_ROWS, "attn_v": KV_ROWS}.items():
        shapes |= {f"blk.0.{name}.weight": (rows, HIDDEN), f"blk.0.{name}.bias": (rows,)}
    shapes |= dict.fromkeys(("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"), (HIDDEN,))
    generator = torch.Generator().manual_seed(0)
    for name, shape in shapes.items():
        writer.add_tensor(name, torch.randn(shape, generator=generator).numpy())


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    phases: list[str] = []
    convert_gguf(write_gguf(folder / "tiny.gguf"), folder / "converted", phases.append)
    assert phases == ["reading the file", "converting the tokenizer", "converting the weights"]
    assert (folder / "tiny.gguf").exists()
    assert not (folder / "converted.unfinished").exists()
    return folder / "converted"


def test_the_folder_is_a_checkpoint_that_our_loader_takes(converted: Path) -> None:
    config = read_model_config(converted)
    assert (config.family, config.num_layers, config.rope.theta, config.rms_norm_eps) == ("qwen2", 1, 1e6, 1e-6)
    assert not config.tie_word_embeddings
    map_parameters(config, Checkpoint(converted))
    assert json.loads((converted / "config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]


def test_the_weights_are_those_of_the_file_in_bfloat16(converted: Path) -> None:
    tensors = load_file(converted / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    first = torch.randn((len(TOKENS), HIDDEN), generator=torch.Generator().manual_seed(0))
    assert torch.equal(tensors["model.embed_tokens.weight"], first.to(torch.bfloat16))


def test_the_tokenizer_does_not_know_unused_entries(converted: Path) -> None:
    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 8
    assert all(tokenizer.token_to_id(token) is None for token in PADDING)
    assert [tokenizer.token_to_id(token) for token in CONTROL] == [4, 5, 6, 7]
    assert tokenizer.encode("abc<tool_call>").ids == [3, 2, 7]


def test_the_tokenizer_is_the_one_that_transformers_reads(converted: Path) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(converted)
    assert len(theirs) == 8
    ours = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert json.loads(ours.to_str())["normalizer"] == json.loads(theirs.backend_tokenizer.to_str())["normalizer"]
    assert theirs("abc<|im_end|>").input_ids == ours.encode("abc<|im_end|>").ids


def test_both_end_of_sequence_ids_are_known(converted: Path) -> None:
    assert json.loads((converted / "generation_config.json").read_text()) == {"eos_token_id": [6, 4]}
    assert read_model_config(converted).eos_token_ids == (6, 4)


def test_tokens_are_dropped_wherever_a_tokenizer_keeps_them() -> None:
    added = [{"id": 1, "content": "b"}, {"id": 2, "content": "c"}]
    spec = {"version": "1.0", "added_tokens": added, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}}}
    assert without_tokens(spec, frozenset({2})) == {
        "version": "1.0",
        "added_tokens": [{"id": 1, "content": "b"}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}},
    }


@pytest.mark.parametrize("kept", [0, 3, 100, 2000, -100])
def test_a_truncated_file_is_refused_and_leaves_no_folder(kept: int, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="truncated or not a GGUF file"):
        convert_gguf(path, tmp_path / "converted", lambda _: None)
    assert not (tmp_path / "converted").exists()


def test_an_architecture_that_transformers_does_not_read_is_refused_by_name(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", architecture="rwkv7")
    with pytest.raises(UnsupportedModelError, match="rwkv7"):
        convert_gguf(path, tmp_path / "converted", lambda _: None)
    assert not (tmp_path / "converted").exists()


@pytest.mark.model
def test_the_real_tokenizer_ends_where_its_tokens_do(model_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 151_665
    assert max(tokenizer.get_vocab().values()) == 151_664
    assert tokenizer.token_to_id("[PAD151665]") is None
    assert set(read_model_config(model_folder).eos_token_ids) == {151_643, 151_645}


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskSpaceError, "GB free"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), DiskSpaceError, "GB free"),
        (PermissionError(errno.EACCES, "denied"), CheckpointError, "cannot be converted"),
    ],
)
def test_a_write_that_fails_is_told_and_leaves_nothing(
    error: Exception, expected: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(gguf_path: Path, folder: Path) -> None:
        raise error

    monkeypatch.setattr(gguf_conversion, "_write_model", fail)
    with pytest.raises(expected, match=said):
        convert_gguf(write_gguf(tmp_path / "tiny.gguf"), tmp_path / "converted", lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]
