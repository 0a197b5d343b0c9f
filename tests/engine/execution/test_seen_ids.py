"""Seen ids are those of the text, whatever happened to it since the last time."""

import time

import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.token_bitmask import read_token_ids
from sureact.execution.seen_ids import SeenBits, SeenIds

CPU = torch.device("cpu")
EDITS = st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 5), max_size=6)), max_size=10)
"""Each: tokens taken back, and tokens added."""


def test_an_empty_text_has_none() -> None:
    ids = SeenIds().of([], CPU)
    assert (ids.tolist(), ids.dtype) == ([], torch.int64)


@given(EDITS)
def test_each_id_of_the_text_is_there_once_after_any_edit(edits: list[tuple[int, list[int]]]) -> None:
    seen = SeenIds()
    token_ids: list[int] = []
    for num_cut, added in edits:
        del token_ids[max(0, len(token_ids) - num_cut) :]
        token_ids += added
        assert sorted(seen.of(token_ids, CPU).tolist()) == sorted(set(token_ids))


@given(EDITS)
def test_the_bits_are_those_of_the_ids_after_any_edit(edits: list[tuple[int, list[int]]]) -> None:
    seen = SeenBits(70)
    token_ids: list[int] = []
    for num_cut, added in edits:
        del token_ids[max(0, len(token_ids) - num_cut) :]
        token_ids += [token_id * 13 for token_id in added]
        bits = torch.from_numpy(seen.of(token_ids)).unsqueeze(0)
        assert (bits.shape, bits.dtype) == ((1, 3), torch.int32)
        assert read_token_ids(bits, 0) == sorted(set(token_ids))


def test_a_token_more_in_a_long_text_costs_little() -> None:
    token_ids = [i * i % 9973 for i in range(32_000)]
    seen = SeenIds()
    start = time.perf_counter()
    seen.of(token_ids, CPU)
    first = time.perf_counter() - start
    seconds: list[float] = []
    for i in range(20):
        token_ids.append(20_000 + i)
        start = time.perf_counter()
        seen.of(token_ids, CPU)
        seconds.append(time.perf_counter() - start)
    assert len(seen.of(token_ids, CPU)) == len(set(token_ids))
    assert min(seconds) < first
