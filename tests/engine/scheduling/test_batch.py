from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
from sureact.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    token_bytes=(b"a",),
    control_ids=frozenset(),
    unused_ids=frozenset(),
    eos_ids=(),
    tokenizer_json=None,
    fingerprint="test",
)


def request_of(num_tokens: int) -> Request:
    return Request(CachedSequence([0] * num_tokens), SamplingParams(), VOCABULARY, str.encode)


def test_the_stretch_that_reaches_the_end_is_the_last_chunk() -> None:
    request = request_of(10)
    assert not ScheduledRequest(request, 0, 8).is_last_chunk
    assert ScheduledRequest(request, 8, 2).is_last_chunk


def test_a_batch_decodes_when_no_entry_belongs_to_a_prompt() -> None:
    prompt = request_of(10)
    decoding = request_of(4)
    decoding.sequence.token_ids.append(0)
    assert Batch((ScheduledRequest(decoding, 4, 1),)).is_decode
    assert not Batch((ScheduledRequest(decoding, 4, 1), ScheduledRequest(prompt, 9, 1))).is_decode
