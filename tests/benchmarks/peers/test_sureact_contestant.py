import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.peers.contestant import SchemaRefusedError
from benchmarks.peers.engine_settings import EngineSettings
from benchmarks.peers.sureact_contestant import SureactContestant
from tests.engine.conftest import CheckpointMaker

from sureact.evaluation.react_script import react_script

SETTINGS = EngineSettings(quantization="none", dtype="float32", kv_cache_gb=0.05, max_running_requests=2)


@pytest.fixture(scope="module")
def contestant(make_checkpoint: CheckpointMaker) -> Iterator[SureactContestant]:
    folder: Path = make_checkpoint("qwen2", max_position_embeddings=16384)
    ours = SureactContestant(str(folder), SETTINGS, 1)
    yield ours
    ours.close()


def test_it_decodes_and_reads_prompts(contestant: SureactContestant) -> None:
    assert contestant.decode_seconds([*b"abc"], 3) > 0
    assert contestant.prefill_seconds([*b"abd"]) > 0


def test_it_writes_json_and_says_which_schemas_it_refuses(contestant: SureactContestant) -> None:
    written = contestant.write_json([*b"abc"], '{"const": "yes"}', 20)
    assert json.loads(written.text) == "yes"
    assert written.num_tokens == 4
    with pytest.raises(SchemaRefusedError, match="satisf"):
        contestant.write_json([*b"abc"], '{"type": "string", "minLength": 2, "maxLength": 1}', 20)


def test_it_plays_alone_together_and_one_after_another(contestant: SureactContestant) -> None:
    scripts = [react_script(seed, num_turns=1) for seed in range(2)]
    alone = contestant.play(scripts[0], [*b"question"])
    assert len(alone.turns) == 2
    texts = [
        [[piece.text for turn in run.turns for piece in turn.pieces] for run in runs]
        for runs in (
            contestant.play_all(scripts, together=together, cache_salt=str(together)) for together in (True, False)
        )
    ]
    assert texts[0] == texts[1]
