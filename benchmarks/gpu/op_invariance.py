"""Whether a row of an op has the same bits whatever the number of rows and whatever stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from benchmarks.gpu.bits import EQUAL, Difference, difference
from benchmarks.gpu.passes import num_blocks
from benchmarks.gpu.probe import matrices
from benchmarks.harness import BLOCK_SIZE, device
from benchmarks.kernels.case import Sizes, activations, cached, mask
from benchmarks.kernels.weights import forms, weight_of

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.embedding import embedding
from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import LinearWeight, linear
from sureact_kernels.masked_argmax import masked_argmax
from sureact_kernels.masked_head import masked_head
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.silu_and_mul import silu_and_mul

EPS = 1e-6
MANY_ROWS = 300
"""A chunk of a prompt, which other kernels compute than a few rows."""

ATTENTION_CONTEXT = 700
CUT_LENS = (1, 4, 17, 64)
"""Queries of one pass: a token, a draft, and chunks."""


class RowOp(NamedTuple):
    """An op as a function of rows."""

    x: torch.Tensor
    """One row more than are ever computed together."""
    run: Callable[[torch.Tensor], torch.Tensor]


NamedCheck = tuple[str, Callable[[], Difference]]
MakeOp = Callable[[Sizes, int], RowOp]
"""Draws an op's tensors: for a model, and as many rows."""


def op_checks(sizes: Sizes, counts: Sequence[int]) -> Iterator[NamedCheck]:
    """Yield what compares the ops of a model with themselves; tensors are drawn when a check runs.

    Args:
        sizes: of the model.
        counts: rows that are computed together.
    """

    def check(make: MakeOp) -> Difference:
        return check_row_op(make(sizes, max(counts) + 1), counts)

    for name, make in (*SMALL_OPS.items(), *_products(sizes)):
        yield name, partial(check, make)
    for form in forms():
        yield f"masked_head beside linear {form}", partial(_check_heads, sizes, form)
    yield "paged_attention, decode", partial(check, _decode_attention)
    yield "paged_attention, drafts and chunks", partial(_check_cuts, sizes)


def check_row_op(op: RowOp, counts: Sequence[int]) -> Difference:
    """Compute one row alone, then first, in the middle and last among others; return the first difference."""
    target = op.x[:1]
    alone = op.run(target)[0]
    for count in counts:
        for place in sorted({0, count // 2, count - 1}):
            company = op.x[1 : count + 1].clone()
            company[place] = target[0]
            found = difference(op.run(company)[place], alone)
            if found.num_elements:
                return Difference(found.num_elements, f"row {place} of {count}: {found.first}")
    return EQUAL


def _products(sizes: Sizes) -> Iterator[tuple[str, MakeOp]]:
    """Yield the products with each matrix of a model in each form."""
    for form in forms():
        for name in matrices(sizes):
            yield f"linear {name} {form}", partial(_product, linear, name, form)
        yield f"gated_linear {form}", partial(_product, gated_linear, "gate_up", form)
        yield f"masked_head {form}", partial(_product, _masked_head, "head", form)


def _product(op: Callable[..., torch.Tensor], matrix: str, form: str, sizes: Sizes, num_rows: int) -> RowOp:
    out_features, in_features = matrices(sizes)[matrix]
    weight = weight_of(form, out_features, in_features).weight
    return RowOp(activations(num_rows, in_features), partial(op, weight=weight))


def _rms_norm(sizes: Sizes, num_rows: int) -> RowOp:
    weight = activations(sizes.hidden_size)
    return RowOp(activations(num_rows, sizes.hidden_size), partial(rms_norm, weight=weight, eps=EPS))


def _add_rms_norm(sizes: Sizes, num_rows: int) -> RowOp:
    weight = activations(sizes.hidden_size)

    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.cat(add_rms_norm(x, x.flip(1).clone(), weight, EPS), dim=1)

    return RowOp(activations(num_rows, sizes.hidden_size), run)


def _silu_and_mul(sizes: Sizes, num_rows: int) -> RowOp:
    return RowOp(activations(num_rows, 2 * sizes.intermediate_size), silu_and_mul)


def _embedding(sizes: Sizes, num_rows: int) -> RowOp:
    ids = torch.randint(sizes.vocab_size, (num_rows,), device=device())
    return RowOp(ids, partial(embedding, weight=cached(sizes.vocab_size, sizes.hidden_size)))


def _masked_argmax(sizes: Sizes, num_rows: int) -> RowOp:
    bitmask, _ = mask(1, sizes.vocab_size, sizes.vocab_size // 2)

    def run(x: torch.Tensor) -> torch.Tensor:
        return masked_argmax(x, bitmask.expand(len(x), -1).contiguous())

    return RowOp(torch.randn(num_rows, sizes.vocab_size, device=device()), run)


def _qk_norm_rope_store(sizes: Sizes, num_rows: int) -> RowOp:
    """Return the op with everything that it writes; every row has the same angles."""
    cache = cached(2, num_blocks(num_rows), BLOCK_SIZE, sizes.num_kv_heads, sizes.head_dim)
    norm = HeadNorm(activations(sizes.head_dim), activations(sizes.head_dim), EPS)
    angles = torch.rand(1, sizes.head_dim // 2, device=device()) * 6
    cos, sin = angles.cos().repeat(1, 2), torch.cat((-angles.sin(), angles.sin()), dim=1)

    def run(x: torch.Tensor) -> torch.Tensor:
        cosines, sines = (part.expand(len(x), -1).contiguous() for part in (cos, sin))
        slots = torch.arange(len(x), device=device())
        q = qk_norm_rope_store(x, cosines, sines, cache[0], cache[1], slots, norm)
        written = cache.flatten(1, 2)[:, : len(x)].to(q.dtype).flatten(2).transpose(0, 1).flatten(1)
        return torch.cat((q.flatten(1), written), dim=1)

    return RowOp(activations(num_rows, sizes.qkv_size), run)


SMALL_OPS: dict[str, MakeOp] = {
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
    "silu_and_mul": _silu_and_mul,
    "embedding": _embedding,
    "qk_norm_rope_store": _qk_norm_rope_store,
    "masked_argmax": _masked_argmax,
}


def _masked_head(x: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
    """Return the logits that the mask allows, the others as 0."""
    bitmask, is_allowed = _few_ids(weight.out_features)
    logits = masked_head(x, weight, bitmask.expand(len(x), -1).contiguous())
    return logits.masked_fill(~is_allowed, 0.0)


def _check_heads(sizes: Sizes, form: str) -> Difference:
    """Compare the logits that a mask allows with those of the whole head."""
    weight = weight_of(form, *matrices(sizes)["head"]).weight
    x = activations(3, sizes.hidden_size)
    _, is_allowed = _few_ids(weight.out_features)
    return difference(_masked_head(x, weight), linear(x, weight).float().masked_fill(~is_allowed, 0.0))


def _few_ids(vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    is_allowed = torch.zeros(1, vocab_size, dtype=torch.bool, device=device())
    is_allowed[:, :: max(1, vocab_size // 30)] = True
    padded = torch.nn.functional.pad(is_allowed, (0, -vocab_size % 32))
    bits = padded.view(1, -1, 32).long() << torch.arange(32, device=device())
    return bits.sum(-1).to(torch.int32), is_allowed


def _decode_attention(sizes: Sizes, num_rows: int) -> RowOp:
    """Return attention of one query of each sequence, all of which see the same keys."""
    cache, table = _context(sizes)

    def run(q: torch.Tensor) -> torch.Tensor:
        plan = plan_attention(
            table.expand(len(q), -1).contiguous(),
            [1] * len(q),
            [ATTENTION_CONTEXT] * len(q),
            block_size=BLOCK_SIZE,
            group=sizes.num_q_heads // sizes.num_kv_heads,
        )
        return paged_attention(q, cache[0], cache[1], plan, sizes.head_dim**-0.5)

    return RowOp(activations(num_rows, sizes.num_q_heads, sizes.head_dim), run)


def _check_cuts(sizes: Sizes) -> Difference:
    """Attend from many queries of one sequence in one pass, then one by one, in drafts and in chunks."""
    cache, table = _context(sizes)
    q = activations(MANY_ROWS, sizes.num_q_heads, sizes.head_dim)

    def attend(start: int, end: int) -> torch.Tensor:
        plan = plan_attention(
            table,
            [end - start],
            [ATTENTION_CONTEXT - MANY_ROWS + end],
            block_size=BLOCK_SIZE,
            group=sizes.num_q_heads // sizes.num_kv_heads,
        )
        return paged_attention(q[start:end], cache[0], cache[1], plan, sizes.head_dim**-0.5)

    whole = attend(0, MANY_ROWS)
    for length in CUT_LENS:
        starts = range(0, MANY_ROWS, length)
        found = difference(torch.cat([attend(start, min(start + length, MANY_ROWS)) for start in starts]), whole)
        if found.num_elements:
            return Difference(found.num_elements, f"in stretches of {length}: {found.first}")
    return EQUAL


def _context(sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    width = num_blocks(ATTENTION_CONTEXT)
    cache = cached(2, width, BLOCK_SIZE, sizes.num_kv_heads, sizes.head_dim)
    return cache, torch.arange(width, device=device()).flip(0).unsqueeze(0)
