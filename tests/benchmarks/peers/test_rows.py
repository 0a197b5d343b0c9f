from pathlib import Path

import pytest
from benchmarks.peers.prompts import Prompts
from benchmarks.peers.rows import ROWS, Amounts, Row
from benchmarks.peers.work import AgentRuns, Decode, JsonText

from sureact.tokens.tokenizer import Tokenizer

AMOUNTS = Amounts(num_pairs=2, num_runs=2, num_batches=2, num_calls=5, num_agents=3)


@pytest.fixture(scope="module")
def prompts(tiny_folder: Path) -> Prompts:
    return Prompts(Tokenizer(tiny_folder, num_logits=288), None)


def test_the_rows_are_those_that_are_promised() -> None:
    assert [row.name for row in ROWS] == [
        "decode_int8",
        "decode_int4",
        "decode_int4_1.5b",
        "prefill_strict",
        "prefill_fast",
        "constrained",
        "react_int8",
        "react_int4",
        "agents_16",
        "constraint_cost",
    ]
    assert [row.name for row in ROWS if row.settings.determinism == "fast"] == ["prefill_fast"]
    assert all(row.settings.max_draft_len == 0 for row in ROWS if row.name.startswith(("decode", "constraint_cost")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_both_sides_get_as_much_after_a_warm_up(row: Row, prompts: Prompts) -> None:
    pairs = list(row.works(prompts, AMOUNTS))
    assert len(pairs) == 1 + 2
    assert all(len(pair.ours) == len(pair.theirs) > 0 for pair in pairs)
    if row.name not in ("agents_16", "constraint_cost"):
        assert all(pair.ours == pair.theirs for pair in pairs)
        works = [repr(work) for pair in pairs[1:] for work in pair.ours]
        assert len(works) == len(set(works)), "nothing is asked for twice, which a prefix cache would notice"


def test_agents_at_once_and_one_after_another_share_no_prefix(prompts: Prompts) -> None:
    (row,) = (row for row in ROWS if row.name == "agents_16")
    works = [work for pair in row.works(prompts, AMOUNTS) for work in (*pair.ours, *pair.theirs)]
    salts = [work.cache_salt for work in works if isinstance(work, AgentRuns)]
    assert len(salts) == len(set(salts)) == 6
    assert all(pair.ours[0].scripts == pair.theirs[0].scripts for pair in row.works(prompts, AMOUNTS))  # pyright: ignore


def test_constrained_and_free_texts_are_equally_long(prompts: Prompts) -> None:
    (row,) = (row for row in ROWS if row.name == "constraint_cost")
    for pair in row.works(prompts, AMOUNTS):
        (constrained,), (free,) = pair.ours, pair.theirs
        assert isinstance(constrained, JsonText)
        assert isinstance(free, Decode)
        assert constrained.max_tokens == free.num_tokens + 1
        assert constrained.prompt == free.prompt


def test_a_slow_peer_gets_less() -> None:
    amounts = Amounts()
    assert amounts.of_peer("llama.cpp") == amounts
    assert amounts.of_peer("outlines").num_calls == 20
    assert amounts.of_peer("outlines").num_runs == 2
