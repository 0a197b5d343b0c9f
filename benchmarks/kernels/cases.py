"""What `python -m benchmarks.kernels` measures: each op at a model's shapes, beside what torch offers for the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.harness import BLOCK_SIZE, device
from benchmarks.kernels.bench_advance_rows import BYTES_PER_ROW, MAX_STOP_LEN, STOPS_PER_ROW, rows_of
from benchmarks.kernels.case import Case, Sizes, activations, cached, mask, shape_of
from benchmarks.kernels.weights import Form, forms, weight_of

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.advance_rows import DecodeRows, advance_rows, advance_rows_in_torch
from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.embedding import embedding
from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import linear
from sureact_kernels.masked_argmax import masked_argmax
from sureact_kernels.masked_head import masked_head
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.sample import sample
from sureact_kernels.silu_and_mul import silu_and_mul
from sureact_kernels.stop_match import stop_match

EPS = 1e-6
ROWS = (1, 16, 512)
"""A token, a batch of tokens, a chunk of a prompt."""


def _rms_norm(sizes: Sizes) -> Iterator[Case]:
    for num_rows in ROWS:
        x, weight = activations(num_rows, sizes.hidden_size), activations(sizes.hidden_size)
        yield Case(
            shape_of(x),
            lambda x=x, weight=weight: rms_norm(x, weight, EPS),
            lambda x=x, weight=weight: F.rms_norm(x, weight.shape, weight, EPS),
            2 * x.nbytes + weight.nbytes,
            4 * x.numel(),
            x.dtype,
        )


def _add_rms_norm(sizes: Sizes) -> Iterator[Case]:
    for num_rows in ROWS:
        x, residual = activations(num_rows, sizes.hidden_size), activations(num_rows, sizes.hidden_size)
        weight = activations(sizes.hidden_size)
        yield Case(
            shape_of(x),
            lambda x=x, residual=residual, weight=weight: add_rms_norm(x, residual, weight, EPS)[0],
            lambda x=x, residual=residual, weight=weight: F.rms_norm(x + residual, weight.shape, weight, EPS),
            4 * x.nbytes + weight.nbytes,
            5 * x.numel(),
            x.dtype,
        )


def _silu_and_mul(sizes: Sizes) -> Iterator[Case]:
    for num_rows in ROWS:
        gate_up = activations(num_rows, 2 * sizes.intermediate_size)
        gate, up = gate_up.chunk(2, dim=-1)
        yield Case(
            shape_of(gate_up),
            lambda gate_up=gate_up: silu_and_mul(gate_up),
            lambda gate=gate, up=up: F.silu(gate) * up,
            gate_up.nbytes * 3 // 2,
            5 * gate.numel(),
            gate_up.dtype,
        )


def _embedding(sizes: Sizes) -> Iterator[Case]:
    weight = cached(sizes.vocab_size, sizes.hidden_size)
    for num_rows in ROWS:
        ids = torch.randint(0, sizes.vocab_size, (num_rows,), device=device())
        yield Case(
            f"{num_rows} of {shape_of(weight)}",
            lambda ids=ids: embedding(ids, weight),
            lambda ids=ids: F.embedding(ids, weight),
            ids.nbytes + 2 * num_rows * weight[0].nbytes,
            0,
            None,
        )


def _qk_norm_rope_store(sizes: Sizes) -> Iterator[Case]:
    cache = cached(2, 8, BLOCK_SIZE, sizes.num_kv_heads, sizes.head_dim)
    norm = HeadNorm(activations(sizes.head_dim), activations(sizes.head_dim), EPS)
    for num_rows in ROWS:
        qkv = activations(num_rows, sizes.qkv_size)
        angles = torch.rand(num_rows, sizes.head_dim // 2, device=device()) * 6
        cos, sin = angles.cos().repeat(1, 2), torch.cat((-angles.sin(), angles.sin()), dim=1)
        slots = torch.randperm(8 * BLOCK_SIZE, device=device())[:num_rows]
        in_torch = _rotated_in_torch(qkv, cos, sin, cache, slots, norm)
        yield Case(
            f"{shape_of(qkv)}, cache bfloat16",
            lambda qkv=qkv, cos=cos, sin=sin, slots=slots: qk_norm_rope_store(
                qkv, cos, sin, cache[0], cache[1], slots, norm
            ),
            in_torch,
            qkv.nbytes
            + num_rows * sizes.num_q_heads * sizes.head_dim * qkv.element_size()
            + 2 * num_rows * cache[0, 0, 0].nbytes
            + 2 * cos.nbytes
            + slots.nbytes,
            7 * qkv.numel(),
            qkv.dtype,
        )


def _rotated_in_torch(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, norm: HeadNorm
) -> Callable[[], torch.Tensor]:
    num_kv_heads, head_dim = cache.shape[-2:]
    heads = qkv.unflatten(1, (-1, head_dim))
    num_q_heads = heads.shape[1] - 2 * num_kv_heads
    keys, values = (part.flatten(0, 1) for part in cache)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * cos[:, None] + wide.roll(head_dim // 2, -1) * sin[:, None]).to(x.dtype)

    def run() -> torch.Tensor:
        q, k, v = heads.split((num_q_heads, num_kv_heads, num_kv_heads), dim=1)
        q = rotated(F.rms_norm(q, (head_dim,), norm.q_weight, norm.eps))
        k = rotated(F.rms_norm(k, (head_dim,), norm.k_weight, norm.eps))
        keys.index_copy_(0, slots, k.to(keys.dtype))
        values.index_copy_(0, slots, v.to(values.dtype))
        return q

    return run


def _linear(sizes: Sizes) -> Iterator[Case]:
    matrices = {
        "qkv": (sizes.qkv_size, sizes.hidden_size),
        "o": (sizes.hidden_size, sizes.num_q_heads * sizes.head_dim),
        "gate_up": (2 * sizes.intermediate_size, sizes.hidden_size),
        "down": (sizes.hidden_size, sizes.intermediate_size),
        "head": (sizes.vocab_size, sizes.hidden_size),
    }
    for name, (out_features, in_features) in matrices.items():
        for form in forms():
            made = weight_of(form, out_features, in_features)
            for num_rows in ROWS if name != "head" else ROWS[:2]:
                yield _product(f"{name} {form}", made, activations(num_rows, in_features))


def _product(name: str, made: Form, x: torch.Tensor) -> Case:
    weight, dense = made
    out_features = dense.shape[0]
    return Case(
        f"{name}, {shape_of(x)} x {out_features}",
        lambda: linear(x, weight),
        lambda: F.linear(x.to(dense.dtype), dense),
        x.nbytes + weight.num_bytes + len(x) * out_features * x.element_size(),
        2 * len(x) * dense.numel(),
        torch.bfloat16,
    )


def _gated_linear(sizes: Sizes) -> Iterator[Case]:
    for form in forms():
        made = weight_of(form, 2 * sizes.intermediate_size, sizes.hidden_size)
        for num_rows in ROWS:
            yield _gated_product(form, made, activations(num_rows, sizes.hidden_size))


def _gated_product(form: str, made: Form, x: torch.Tensor) -> Case:
    weight, dense = made
    num_out = len(dense) // 2

    def in_torch() -> torch.Tensor:
        gate, up = F.linear(x.to(dense.dtype), dense).chunk(2, dim=-1)
        return F.silu(gate) * up

    return Case(
        f"{form}, {shape_of(x)} x 2 * {num_out}",
        lambda: gated_linear(x, weight),
        in_torch,
        x.nbytes + weight.num_bytes + len(x) * num_out * x.element_size(),
        2 * len(x) * dense.numel(),
        torch.bfloat16,
    )


def _paged_attention(sizes: Sizes) -> Iterator[Case]:
    for num_seqs, query_len, context_len in ((1, 1, 1024), (32, 1, 1024), (1, 1, 8192), (1, 4, 1024), (1, 512, 1024)):
        yield _attention(sizes, num_seqs, query_len, context_len)


def _attention(sizes: Sizes, num_seqs: int, query_len: int, context_len: int) -> Case:
    num_blocks, group = context_len // BLOCK_SIZE, sizes.num_q_heads // sizes.num_kv_heads
    q = activations(num_seqs * query_len, sizes.num_q_heads, sizes.head_dim)
    cache = cached(2, num_seqs * num_blocks, BLOCK_SIZE, sizes.num_kv_heads, sizes.head_dim)
    plan = plan_attention(
        torch.arange(num_seqs * num_blocks, device=device()).view(num_seqs, num_blocks),
        [query_len] * num_seqs,
        [context_len] * num_seqs,
        block_size=BLOCK_SIZE,
        group=group,
    )
    flat_k, flat_v = (part.view(num_seqs, context_len, *part.shape[2:]).transpose(1, 2).to(q.dtype) for part in cache)
    rows = q.unflatten(0, (num_seqs, query_len)).transpose(1, 2)
    visible = torch.ones(query_len, context_len, device=device()).tril(context_len - query_len).bool()
    mask = visible if query_len > 1 else None  # with one, torch has a faster way
    num_pairs = num_seqs * int(visible.sum()) * sizes.num_q_heads
    return Case(
        f"{num_seqs} x {query_len} tokens of {context_len}, cache bfloat16",
        lambda: paged_attention(q, cache[0], cache[1], plan, sizes.head_dim**-0.5),
        lambda: (
            F.scaled_dot_product_attention(rows, flat_k, flat_v, mask, enable_gqa=group > 1)
            .transpose(1, 2)
            .flatten(0, 1)
        ),
        2 * q.nbytes + cache.nbytes,
        4 * num_pairs * sizes.head_dim,
        torch.bfloat16,
    )


def _masked_argmax(sizes: Sizes) -> Iterator[Case]:
    for num_rows in ROWS[:2]:
        logits = torch.randn(num_rows, sizes.vocab_size, device=device())
        for name, num_ids in (("all ids", sizes.vocab_size), ("30 ids", 30)):
            bitmask, is_allowed = mask(num_rows, sizes.vocab_size, num_ids)
            yield Case(
                f"{shape_of(logits)}, {name}",
                lambda logits=logits, bitmask=bitmask: masked_argmax(logits, bitmask),
                lambda logits=logits, is_allowed=is_allowed: logits.masked_fill(~is_allowed, -torch.inf).argmax(-1),
                min(logits.nbytes, 4 * 32 * num_rows * num_ids) + bitmask.nbytes,
                0,
                None,
            )


def _masked_head(sizes: Sizes) -> Iterator[Case]:
    for form in forms():
        made = weight_of(form, sizes.vocab_size, sizes.hidden_size)
        for num_rows in ROWS[:2]:
            yield _head(form, made, activations(num_rows, sizes.hidden_size), num_ids=30)


def _head(form: str, made: Form, x: torch.Tensor, *, num_ids: int) -> Case:
    weight, dense = made
    num_rows, vocab_size = len(x), len(dense)
    bitmask, is_allowed = mask(num_rows, vocab_size, num_ids)
    return Case(
        f"{form}, {shape_of(x)} x {num_ids} ids of {vocab_size}",
        lambda: masked_head(x, weight, bitmask),
        lambda: F.linear(x.to(dense.dtype), dense).float(),
        x.nbytes + bitmask.nbytes + weight.num_bytes * num_ids // vocab_size + 4 * is_allowed.numel(),
        2 * num_rows * num_ids * dense.shape[1],
        torch.bfloat16,
        is_allowed,
    )


def _sample(sizes: Sizes) -> Iterator[Case]:
    logits = torch.randn(sizes.vocab_size, device=device()) * 3
    bitmask, _ = mask(1, sizes.vocab_size, sizes.vocab_size)
    for top_k, top_p in ((0, 1.0), (50, 0.9)):
        yield Case(
            f"{shape_of(logits)}, " + (f"top_k {top_k}, top_p {top_p}" if top_k else "temperature"),
            lambda top_k=top_k, top_p=top_p: sample(logits, bitmask[0], 0.5, temperature=0.7, top_k=top_k, top_p=top_p),
            lambda top_k=top_k, top_p=top_p: _sampled_in_torch(logits, top_k, top_p),
            logits.nbytes + bitmask.nbytes,
            0,
        )


def _sampled_in_torch(logits: torch.Tensor, top_k: int, top_p: float) -> int:
    """Draw as `sample` does for 0.5 at temperature 0.7, with no mask."""
    values, ids = (logits / 0.7).sort(descending=True, stable=True)
    probabilities = (values[: top_k or None]).softmax(0, dtype=torch.float64)
    probabilities *= probabilities.cumsum(0) - probabilities < top_p
    return int(ids[(probabilities.cumsum(0) <= 0.5 * probabilities.sum()).sum()])


def _stop_match(sizes: Sizes) -> Iterator[Case]:
    for num_rows in ROWS[:2]:
        yield _stops(sizes, num_rows, num_stops=8, stop_len=16)


def _stops(sizes: Sizes, num_rows: int, *, num_stops: int, stop_len: int) -> Case:
    shape = (num_rows, num_stops, stop_len)
    stops = torch.randint(sizes.vocab_size, shape, dtype=torch.int32, device=device())
    recent = stops[:, -1].contiguous()
    lengths = torch.full((num_rows,), 1000, dtype=torch.int32, device=device())
    firsts = torch.arange(0, num_rows * num_stops, num_stops, dtype=torch.int32, device=device())
    bounds = torch.stack((firsts, firsts + num_stops), dim=1)

    def in_torch() -> torch.Tensor:
        matches = (stops == recent[:, None]).all(-1)
        return torch.where(matches.any(-1), firsts + matches.int().argmax(-1), -1).int()

    return Case(
        f"{num_rows} rows, {num_stops} stops of {stop_len} each",
        lambda: stop_match(recent, lengths, stops.flatten(0, 1), bounds),
        in_torch,
        recent.nbytes + stops.nbytes + bounds.nbytes + 2 * lengths.nbytes,
        0,
    )


def _advance_rows(sizes: Sizes) -> Iterator[Case]:
    del sizes  # the same for every model
    for num_rows in ROWS[:2]:
        rows, unlaunched = rows_of(num_rows), rows_of(num_rows)
        picked = torch.full((num_rows,), 5, dtype=torch.int64, device=device())

        def run(rows: DecodeRows = rows, picked: torch.Tensor = picked) -> torch.Tensor:
            rows.positions.zero_()  # always the same step, or a row would run out of its block table
            advance_rows(picked, rows, block_size=BLOCK_SIZE, dummy_slot=0)
            return rows.positions

        def in_torch(rows: DecodeRows = unlaunched, picked: torch.Tensor = picked) -> torch.Tensor:
            rows.positions.zero_()
            advance_rows_in_torch(picked, rows, block_size=BLOCK_SIZE, dummy_slot=0)
            return rows.positions

        shape = f"{num_rows} rows, {STOPS_PER_ROW} stops of {MAX_STOP_LEN} each"
        yield Case(shape, run, in_torch, num_rows * BYTES_PER_ROW, 0)


CASES: dict[str, Callable[[Sizes], Iterator[Case]]] = {
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
    "silu_and_mul": _silu_and_mul,
    "embedding": _embedding,
    "qk_norm_rope_store": _qk_norm_rope_store,
    "linear": _linear,
    "gated_linear": _gated_linear,
    "paged_attention": _paged_attention,
    "masked_argmax": _masked_argmax,
    "masked_head": _masked_head,
    "sample": _sample,
    "stop_match": _stop_match,
    "advance_rows": _advance_rows,
}
"""What yields an op's cases, one at a time, so that only one has its tensors in memory."""
