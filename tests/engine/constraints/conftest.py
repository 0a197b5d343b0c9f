"""Small vocabularies, and the question each constraint test asks: can this text be spelled?"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.tokens.vocabulary import Vocabulary

EOS_ID = 256
CONTROL_ID = 257
UNUSED_IDS = frozenset({258, 259})
LONG_TOKENS = (b"ab", b"abc", b'"}', b'": ', b", ", b"true", "é".encode(), "é".encode() + b'"', b"\xff\xfe", b"12")
FIRST_LONG_ID = 260


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """The 256 bytes, an end, a control token, two unused rows, some longer tokens; no tokenizer."""
    token_bytes = (*(bytes([value]) for value in range(256)), b"", b"", b"", b"", *LONG_TOKENS)
    return Vocabulary(
        token_bytes=token_bytes,
        control_ids=frozenset({EOS_ID, CONTROL_ID}),
        unused_ids=UNUSED_IDS,
        eos_ids=(EOS_ID,),
        tokenizer_json=None,
        fingerprint="bytes and long tokens",
    )


@pytest.fixture(scope="session")
def named_vocabulary() -> Vocabulary:
    """The 256 bytes and Qwen's control tokens, with a tokenizer; its tool tokens are not marked special."""
    control = {"<|im_end|>": 256, "<tool_call>": 257, "</tool_call>": 258, "[TOOL]": 259}
    return Vocabulary(
        token_bytes=(*(bytes([value]) for value in range(256)), *(b"" for _ in range(6))),
        control_ids=frozenset(control.values()),
        unused_ids=frozenset({260, 261}),
        eos_ids=(256,),
        tokenizer_json=_byte_level_json(control),
        fingerprint="bytes and named tokens",
    )


@pytest.fixture(scope="session")
def real_vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """That of the pulled 0.5B model, or of the model folder that SUREACT_TEST_MODEL names."""
    from sureact.tokens.tokenizer import Tokenizer

    folder = Path(os.environ.get("SUREACT_TEST_MODEL") or request.getfixturevalue("model_folder"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Tokenizer(folder, num_logits=config["vocab_size"]).vocabulary


def _byte_level_json(control: dict[str, int]) -> str:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    added = [
        {"id": token_id, "content": name, "special": name.startswith("<|")}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for name, token_id in control.items()
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocab = {chr(value) if value in printable else chr(next(others)): value for value in range(256)}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        }
    )


def _feed(state: ConstraintState, data: bytes) -> bool:
    """Advance byte by byte; False at the first byte that is not legal."""
    for byte in data:
        if not state.check_token(byte):
            return False
        state.accept_token(byte)
    return True


@pytest.fixture(scope="session")
def spells(vocabulary: Vocabulary) -> Callable[[Constraint, str], bool]:
    """Whether a constraint lets a complete text through, written byte by byte."""

    def can_spell(constraint: Constraint, text: str) -> bool:
        state = constraint.compile(vocabulary).new_state()
        return _feed(state, text.encode()) and state.is_accepting

    return can_spell


@pytest.fixture
def state_of(vocabulary: Vocabulary) -> Callable[..., ConstraintState]:
    """A state of a constraint after a text."""

    def after(constraint: Constraint, text: str = "") -> ConstraintState:
        state = constraint.compile(vocabulary).new_state()
        assert _feed(state, text.encode())
        return state

    return after
