"""Whether the logits of a sequence have the same bits alone, in company, in chunks, behind drafts, and on graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from benchmarks.gpu.bits import EQUAL, Difference, difference
from benchmarks.gpu.decoder import Decoder
from benchmarks.gpu.passes import Stretch, last_logits, logits_of, run_pass
from benchmarks.gpu.random_model import RandomModel
from benchmarks.harness import BLOCK_SIZE

DRAFT_LEN = 3
CHUNK_LENS = (1, 16, 100)

NamedCheck = tuple[str, Callable[[], Difference]]


class ModelChecks:
    """A prompt that was read whole and alone, and the logits after the token that follows it.

    Args:
        decoder: holds the model, its cache and its graphs, with a table for every row.
        prompt_len: more than a block.
        counts: rows that decode together.
    """

    def __init__(self, decoder: Decoder, prompt_len: int, counts: Sequence[int]) -> None:
        assert prompt_len > BLOCK_SIZE, "the shared beginning is a block"
        self._decoder = decoder
        self._made: RandomModel = decoder.made
        self._prompt = self._made.random_ids(prompt_len, seed=1)
        self._next_id, *self._draft = self._made.random_ids(1 + DRAFT_LEN, seed=2)
        self._counts = counts
        self._read(decoder.tables[0])
        self._alone = self._decode(decoder.tables[0])

    def __iter__(self) -> Iterator[NamedCheck]:
        for count in self._counts:
            yield f"{count} rows, of the same prompt", partial(self._together, count, is_mixed=False)
            yield f"{count} rows, mixed", partial(self._together, count, is_mixed=True)
        for length in CHUNK_LENS:
            yield f"prompt in chunks of {length}", partial(self._in_chunks, length)
        yield "prompts read together", self._read_together
        yield "drafted tokens in the same pass", self._drafted
        yield "first block from the cache", self._cache_hit
        for count in self._counts:
            yield f"graph of {count} rows", partial(self._on_graph, count)

    def _together(self, count: int, *, is_mixed: bool) -> Difference:
        for place in sorted({0, count // 2, count - 1}):
            stretches = self._neighbors(count, is_mixed=is_mixed)
            stretches[place] = Stretch([self._next_id], len(self._prompt), self._decoder.tables[0])
            found = difference(last_logits(self._made, self._decoder.layers, stretches)[place], self._alone)
            if found.num_elements:
                return Difference(found.num_elements, f"row {place}: {found.first}")
        return EQUAL

    def _neighbors(self, count: int, *, is_mixed: bool) -> list[Stretch]:
        """Return rows that decode on other tables: at other places over noise, or after copies of the prompt."""
        tables = self._decoder.tables[1 : count + 1]
        if is_mixed:
            ids = self._made.random_ids(count, seed=3)
            longest = len(self._prompt)
            return [
                Stretch([token_id], (37 * row + 11) % longest, table)
                for row, (token_id, table) in enumerate(zip(ids, tables, strict=True))
            ]
        source = self._decoder.tables[0]
        for keys, values in self._decoder.layers:
            for table in tables:
                keys[table] = keys[source]
                values[table] = values[source]
        return [Stretch([self._next_id], len(self._prompt), table) for table in tables]

    def _in_chunks(self, length: int) -> Difference:
        table = self._decoder.tables[1]
        for start in range(0, len(self._prompt), length):
            run_pass(self._made, self._decoder.layers, [Stretch(self._prompt[start : start + length], start, table)])
        return difference(self._decode(table), self._alone)

    def _read_together(self) -> Difference:
        others = [self._made.random_ids(length, seed=length) for length in (5, BLOCK_SIZE + 9)]
        prompts = [others[0], self._prompt, others[1]]
        tables = self._decoder.tables[1 : len(prompts) + 1]
        stretches = [Stretch(ids, 0, table) for ids, table in zip(prompts, tables, strict=True)]
        run_pass(self._made, self._decoder.layers, stretches)
        return difference(self._decode(tables[1]), self._alone)

    def _drafted(self) -> Difference:
        """Compute a token and drafted ones in one pass, then one by one."""
        table, start = self._decoder.tables[0], len(self._prompt)
        ids = [self._next_id, *self._draft]
        one_by_one = torch.cat(
            [
                last_logits(self._made, self._decoder.layers, [Stretch([token_id], start + index, table)])
                for index, token_id in enumerate(ids)
            ]
        )
        hidden = run_pass(self._made, self._decoder.layers, [Stretch(ids, start, table)])
        found = difference(logits_of(self._made, hidden), one_by_one)
        return found if found.num_elements else difference(one_by_one[0], self._alone)

    def _cache_hit(self) -> Difference:
        first, own = self._decoder.tables[0], self._decoder.tables[1]
        table = [first[0], *own[1:]]
        rest = Stretch(self._prompt[BLOCK_SIZE:], BLOCK_SIZE, table)
        run_pass(self._made, self._decoder.layers, [rest])
        return difference(self._decode(table), self._alone)

    def _on_graph(self, count: int) -> Difference:
        stretches = self._neighbors(count, is_mixed=True)
        place = count // 2
        stretches[place] = Stretch([self._next_id], len(self._prompt), self._decoder.tables[0])
        self._decoder.load(stretches, is_free=False)
        masks = torch.full((count, self._decoder.num_words), -1, dtype=torch.int32)
        logits, picks = self._decoder.graphs.step_masked(lambda: masks)
        picked = picks.wait()[place]
        found = difference(logits[place], self._alone)
        if not found.num_elements and self._alone[picked] < self._alone.max():
            return Difference(1, f"the graph picks {picked}, the largest logit is that of {int(self._alone.argmax())}")
        return found

    def _read(self, table: Sequence[int]) -> None:
        run_pass(self._made, self._decoder.layers, [Stretch(self._prompt, 0, table)])

    def _decode(self, table: Sequence[int]) -> torch.Tensor:
        """Return the logits after the token that follows the prompt."""
        stretch = Stretch([self._next_id], len(self._prompt), table)
        return last_logits(self._made, self._decoder.layers, [stretch])[0]


def tokens_of_checks(prompt_len: int) -> int:
    """Return the tokens that a table must hold."""
    return prompt_len + 1 + DRAFT_LEN
