from collections.abc import Callable

import pytest
import torch
from benchmarks.constraints.adversary import STRATEGIES, Adversary, Strategy, adversarial_vocabulary

from sureact.constraints.json_schema import json_schema
from sureact.errors import InternalError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request

VOCABULARY = adversarial_vocabulary()
MakeLogits = Callable[[Strategy, bytes], torch.Tensor]


def no_masks() -> torch.Tensor:
    return torch.empty(0)


@pytest.fixture
def logits_after() -> MakeLogits:
    """The logits of a strategy against an array of different strings, after a text of single bytes."""
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    compiled = json_schema(schema).compile(VOCABULARY)

    def after(strategy: Strategy, text: bytes) -> torch.Tensor:
        request = Request(CachedSequence([0]), SamplingParams(), VOCABULARY, str.encode, compiled.new_state())
        for byte in text:
            request.accept(byte, None)
        adversary = Adversary(VOCABULARY, 0, max_steps=1)
        adversary.play(request, strategy)
        output = adversary.run(Batch((ScheduledRequest(request, 0, len(request.sequence)),)), no_masks)
        assert output.logits is not None
        return output.logits[0]

    return after


def test_the_vocabulary_spells_every_byte_and_has_tokens_that_cross_marks_and_characters() -> None:
    assert VOCABULARY.token_bytes[:256] == tuple(bytes([value]) for value in range(256))
    assert {b'": "', b'"}', b'", "', b"\\u00", b"\xe2"} & set(VOCABULARY.token_bytes) >= {b'"}', b"\\u00"}
    assert len(set(VOCABULARY.token_bytes)) == VOCABULARY.num_logits > 500
    assert any(not _is_text(token) for token in VOCABULARY.token_bytes[257:])


def test_hate_ranks_first_what_the_mask_refuses(logits_after: MakeLogits) -> None:
    state = json_schema({"type": "array"}).compile(VOCABULARY).new_state()
    assert not state.check_token(int(logits_after("hate", b"").argmax()))


def test_hate_ranks_what_the_guard_refuses_above_what_it_allows(
    logits_after: MakeLogits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.constraints.adversary._NUM_PROBED", 1_000)
    logits = logits_after("hate", b'["a", "a')
    assert logits[ord('"')] > logits[ord("b")] + 20


def test_close_wants_the_end_and_then_closing_marks(logits_after: MakeLogits) -> None:
    logits = logits_after("close", b"[")
    assert int(logits.argmax()) == VOCABULARY.eos_ids[0]
    assert logits[ord("]")] > logits[ord("a")] > logits[ord("[")]


def test_repeat_wants_what_came_next_the_last_time(logits_after: MakeLogits) -> None:
    assert int(logits_after("repeat", b'["abc", "ab').argmax()) == ord("c")


def test_exotic_likes_escapes_digits_brackets_and_odd_bytes(logits_after: MakeLogits) -> None:
    logits = logits_after("exotic", b"")
    for liked in (b"\\", b"9", b"[", b"\xf0"):
        assert logits[liked[0]] > logits[ord("x")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_request_that_does_not_end_is_ended(strategy: Strategy) -> None:
    state = json_schema({}).compile(VOCABULARY).new_state()
    request = Request(CachedSequence([0]), SamplingParams(), VOCABULARY, str.encode, state)
    adversary = Adversary(VOCABULARY, 0, max_steps=2)
    adversary.play(request, strategy)
    batch = Batch((ScheduledRequest(request, 0, 1),))
    adversary.run(batch, no_masks)
    adversary.run(batch, no_masks)
    with pytest.raises(InternalError, match="did not end within 2 steps"):
        adversary.run(batch, no_masks)


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
