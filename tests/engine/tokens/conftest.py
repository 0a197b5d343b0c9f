"""A small byte-level tokenizer in the shape of Qwen's, made on the spot."""

import json
from pathlib import Path

import pytest

CHAT_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools' }}
    {%- for tool in tools %}
        {{- '\\n' }}{{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content | trim) }}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
NUM_LOGITS = 288
"""More rows than the tokenizer has tokens, as in the checkpoints of Qwen."""


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tokenizer with the 256 bytes, a few merges and control tokens; rows beyond 280 or so are unused."""
    folder = tmp_path_factory.mktemp("tokenizer")
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    alphabet |= {byte: chr(256 + index) for index, byte in enumerate(b for b in range(256) if b not in alphabet)}
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "< |", "| >", "i m", "t o", "o l", "Ċ Ċ", "Ã ¤"]
    tokens = [*alphabet.values(), *(merge.replace(" ", "") for merge in merges)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": len(tokens) + index,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": content.startswith("<|"),
            }
            for index, content in enumerate(CONTROL_TOKENS)
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "bos_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 7}), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [8, 7, 100_000]}), encoding="utf-8")
    return folder
