import json
from pathlib import Path

import pytest
from benchmarks.peers.transformers_peer import TransformersPeer


@pytest.fixture(scope="module")
def peer(tiny_folder: Path) -> TransformersPeer:
    return TransformersPeer(tiny_folder, 1)


def test_free_text_is_as_long_as_asked_for_and_timed_in_two_parts(peer: TransformersPeer) -> None:
    token_ids, is_complete, timings = peer.generate([*b"The quick"], 5)
    assert len(token_ids) == 5
    assert not is_complete
    assert timings.prefill_s > 0
    assert timings.decode_s > 0


def test_a_kept_prefix_changes_no_token(peer: TransformersPeer, tiny_folder: Path) -> None:
    first = peer.generate([*b"The quick brown"], 4).token_ids
    for prompt in ([*b"The quick brown", *first, *b" fox"], [*b"The quick red"], [*b"Other"]):
        fresh = TransformersPeer(tiny_folder, 1).generate(prompt, 4).token_ids
        assert peer.generate(prompt, 4).token_ids == fresh


def test_text_under_a_schema_is_valid(peer: TransformersPeer) -> None:
    schema = json.dumps({"enum": ["one", "two"]})
    written = peer.write_json([*b"Number:"], schema, 20)
    assert json.loads(written.text) in ("one", "two")
    assert written.num_tokens > 0
    assert peer.generate([*b"Number:"], 20, schema=schema).is_complete
    assert not peer.generate([*b"Number:"], 2, schema=schema).is_complete


def test_texts_travel_both_ways(peer: TransformersPeer) -> None:
    assert peer.text_of(peer.ids_of("a b")) == "a b"
