# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
"""`sample` in Triton: no sort, but searches of the logit at which a cumulated count or probability passes a number."""

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import check_dtype, check_shape
from sureact_kernels.masked_argmax import check_picked
from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.masked_argmax import IS_NAN, NOTHING_ALLOWED

_ONE = tl.constexpr(float(1 << 40))
"""Weight of the likeliest token. Weights are whole numbers, so that their sums do not depend on the order of adding;
2^22 tokens of that weight fit into int64, and one 28 nats below has none and is never drawn."""

_BLOCK_N = 2048

_DIGIT_BITS = 2
"""Bits of a key, of its 32, that one pass over the row finds."""


_SETTINGS = np.dtype(
    {
        "names": ["uniform", "temperature", "top_k", "top_p", "min_p"],
        "formats": ["f8", "f4", "i4", "f4", "f4"],
        "offsets": [0, 16, 32, 48, 64],
        "itemsize": 80,
    }
)
"""One row's settings side by side; each where Triton takes a pointer for aligned, as those of whole tensors are."""


class SamplingTensors(NamedTuple):
    """How each row samples, on the device of the logits; see `sureact_kernels.sample.sample`."""

    uniform: torch.Tensor
    """`[num_rows]`, float64, in [0, 1)."""
    temperature: torch.Tensor
    """`[num_rows]`, float32, > 0."""
    top_k: torch.Tensor
    """`[num_rows]`, int32; 0 keeps all."""
    top_p: torch.Tensor
    """`[num_rows]`, float32."""
    min_p: torch.Tensor
    """`[num_rows]`, float32."""


_DTYPES = (torch.float64, torch.float32, torch.int32, torch.float32, torch.float32)
"""Of the fields of `SamplingTensors`."""


@triton.jit
def _block_of(logits_row_ptr, mask_row_ptr, start, num_logits, temperature, peak, BLOCK_N: tl.constexpr):
    """Return of a block the ids, which are allowed, their values (logits over temperature), keys and weights.

    Keys are unsigned numbers in the order of the values; none but that of a negative NaN is 0. Weights are int64, 0
    where an id is not allowed, and mean nothing before `peak`, the largest value, is known.
    """
    ids = start + tl.arange(0, BLOCK_N)
    is_id = ids < num_logits
    words = tl.load(mask_row_ptr + ids // 32, mask=is_id, other=0)
    allowed = (((words >> (ids % 32)) & 1) == 1) & is_id
    values = tl.load(logits_row_ptr + ids, mask=allowed, other=0.0).to(tl.float32)
    # Rounded as the reference rounds, so that the same values are equal; and there is one zero.
    values = tl.div_rn(values, tl.zeros((BLOCK_N,), tl.float32) + temperature)
    values = tl.where(values == 0.0, 0.0, values)
    bits = values.to(tl.int32, bitcast=True)
    keys = (bits ^ ((bits >> 31) | -(2**31))).to(tl.uint32, bitcast=True)
    # An infinite peak less itself would be NaN, and NaN has no weight as an integer.
    lower = tl.where(values < peak, values, float("-inf"))
    shares = tl.where(values == peak, 1.0, tl.exp(lower - tl.maximum(peak, -3e38)))
    return ids, allowed, values, keys, tl.where(allowed, (shares * _ONE).to(tl.int64), 0)


@triton.jit
def _peak_of(logits_row_ptr, mask_row_ptr, num_logits, temperature, BLOCK_N: tl.constexpr):
    """Return the largest value, the number of allowed ids, and how many of them are NaN."""
    peaks = tl.full((BLOCK_N,), float("-inf"), tl.float32)
    num_allowed = tl.zeros((BLOCK_N,), tl.int32)
    num_nan = tl.zeros((BLOCK_N,), tl.int32)
    for start in range(0, num_logits, BLOCK_N):
        _, allowed, values, _, _ = _block_of(
            logits_row_ptr, mask_row_ptr, start, num_logits, temperature, float("inf"), BLOCK_N
        )
        num_allowed += allowed.to(tl.int32)
        num_nan += (allowed & (values != values)).to(tl.int32)
        peaks = tl.where(allowed & (values > peaks), values, peaks)
    return tl.max(peaks, 0), tl.sum(num_allowed, 0), tl.sum(num_nan, 0)


@triton.jit
def _search(
    logits_row_ptr,
    mask_row_ptr,
    num_logits,
    temperature,
    peak,
    target,
    COUNTS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DIGIT_BITS: tl.constexpr,
):
    """Find the largest key down to which the allowed ids add up to `target` (> 0, at most what all add up to).

    `COUNTS`: whether each id adds 1, else its weight. Returns the key, which is some id's, and the sum above it.
    """
    NUM_DIGITS: tl.constexpr = 1 << DIGIT_BITS
    found = tl.zeros((), tl.uint32)
    above = tl.zeros((), tl.int64)
    for step in range(32 // DIGIT_BITS):
        shift = 32 - DIGIT_BITS - step * DIGIT_BITS
        thresholds = found + (tl.arange(0, NUM_DIGITS).to(tl.uint32) << shift)
        sums = tl.zeros((BLOCK_N, NUM_DIGITS), tl.int64)
        for start in range(0, num_logits, BLOCK_N):
            _, allowed, _, keys, weights = _block_of(
                logits_row_ptr, mask_row_ptr, start, num_logits, temperature, peak, BLOCK_N
            )
            if COUNTS:
                weights = allowed.to(tl.int64)
            sums += tl.where(keys[:, None] >= thresholds[None, :], weights[:, None], 0)
        totals = tl.sum(sums, 0)
        reaches = totals >= target
        digit = tl.sum(reaches.to(tl.int32), 0) - 1
        found += digit.to(tl.uint32) << shift
        above = tl.maximum(above, tl.max(tl.where(reaches, 0, totals), 0))
    return found, above


@triton.jit
def _weights_around(logits_row_ptr, mask_row_ptr, num_logits, temperature, peak, key, least, BLOCK_N: tl.constexpr):
    """Return the sum of the weights above `key`, and one weight at it, of tokens that weigh at least `least`.

    The weight at `key` is 0 where such a token weighs less.
    """
    sums = tl.zeros((BLOCK_N,), tl.int64)
    at_key = tl.zeros((BLOCK_N,), tl.int64)
    for start in range(0, num_logits, BLOCK_N):
        _, _, _, keys, weights = _block_of(logits_row_ptr, mask_row_ptr, start, num_logits, temperature, peak, BLOCK_N)
        weights = tl.where(weights >= least, weights, 0)
        sums += tl.where(keys > key, weights, 0)
        at_key = tl.where(keys == key, tl.maximum(at_key, weights), at_key)
    return tl.sum(sums, 0), tl.max(at_key, 0)


@triton.jit
def _id_at(logits_row_ptr, mask_row_ptr, num_logits, temperature, key, rank, BLOCK_N: tl.constexpr):
    """Return the allowed id number `rank`, from 0, among those with that key."""
    num_before = tl.zeros((), tl.int64)
    found = tl.full((), -1, tl.int32)
    for start in range(0, num_logits, BLOCK_N):
        ids, allowed, _, keys, _ = _block_of(
            logits_row_ptr, mask_row_ptr, start, num_logits, temperature, float("inf"), BLOCK_N
        )
        ties = (allowed & (keys == key)).to(tl.int32)
        is_it = (ties == 1) & (num_before + tl.cumsum(ties, 0) - 1 == rank)
        found = tl.maximum(found, tl.max(tl.where(is_it, ids, -1), 0))
        num_before += tl.sum(ties, 0)
    return found


@triton.jit
def _sample_kernel(
    logits_ptr,
    bitmask_ptr,
    uniform_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    picked_ptr,
    num_logits,
    logits_stride_row,
    bitmask_stride_row,
    BLOCK_N: tl.constexpr,
    DIGIT_BITS: tl.constexpr,
):
    """Draw the token of one row.

    Pointers: logits `[num_rows, num_logits]`, bitmask `[num_rows, words]`, the settings `[num_rows]` as
    `SamplingTensors` says, picked `[num_rows]` int64. Every filter keeps the first tokens in the order of falling
    probability and rising id; what it keeps is a key, and of the tokens with that key the first few.
    """
    row = tl.program_id(0).to(tl.int64)
    logits = logits_ptr + row * logits_stride_row
    mask = bitmask_ptr + row * bitmask_stride_row
    temperature = tl.load(temperature_ptr + row)
    top_k, top_p = tl.load(top_k_ptr + row), tl.load(top_p_ptr + row)
    # At most what the likeliest token weighs, so that it stays.
    least = (tl.minimum(tl.load(min_p_ptr + row), 1.0) * _ONE).to(tl.int64)
    peak, num_allowed, num_nan = _peak_of(logits, mask, num_logits, temperature, BLOCK_N)
    if num_nan > 0:
        tl.store(picked_ptr + row, IS_NAN)
    elif num_allowed == 0:
        tl.store(picked_ptr + row, NOTHING_ALLOWED)
    else:
        # Without filters: down to key 0, which no token has.
        last = tl.zeros((), tl.uint32)
        num_ties = tl.zeros((), tl.int64)
        if (top_k > 0) & (top_k < num_allowed):
            last, above = _search(
                logits, mask, num_logits, temperature, peak, top_k.to(tl.int64), True, BLOCK_N, DIGIT_BITS
            )
            num_ties = top_k - above
        above, weight = tl.zeros((), tl.int64), tl.zeros((), tl.int64)
        if top_p < 1.0:
            above, weight = _weights_around(logits, mask, num_logits, temperature, peak, last, 0, BLOCK_N)
            share = (above + num_ties * weight).to(tl.float64) * top_p
            limit = share.to(tl.int64)
            limit = tl.maximum(limit + (limit.to(tl.float64) < share).to(tl.int64), 1)
            last, above = _search(logits, mask, num_logits, temperature, peak, limit, False, BLOCK_N, DIGIT_BITS)
            _, weight = _weights_around(logits, mask, num_logits, temperature, peak, last, 0, BLOCK_N)
            num_ties = (limit - above + weight - 1) // weight
        # top_p's search has found these, unless min_p takes some away.
        if (least > 0) | (top_p >= 1.0):
            above, weight = _weights_around(logits, mask, num_logits, temperature, peak, last, least, BLOCK_N)
        total = above + num_ties * weight
        target = (tl.load(uniform_ptr + row) * total.to(tl.float64)).to(tl.int64) + 1
        target = tl.minimum(target, total)
        drawn, above = _search(logits, mask, num_logits, temperature, peak, target, False, BLOCK_N, DIGIT_BITS)
        _, weight = _weights_around(logits, mask, num_logits, temperature, peak, drawn, 0, BLOCK_N)
        rank = (target - above - 1) // weight
        picked = _id_at(logits, mask, num_logits, temperature, drawn, rank, BLOCK_N)
        tl.store(picked_ptr + row, picked.to(tl.int64))


def takes(logits: torch.Tensor, bitmask: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return (
        logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and bitmask.dtype is torch.int32
        and bitmask.device == logits.device
        and 0 < logits.shape[-1] <= 1 << 22
    )


def sample(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    uniform: float,
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> int:
    """See `sureact_kernels.sample`. Waits for the GPU, for the token alone; `sample_rows` does not.

    Probabilities are multiples of 2^-40 of the likeliest token's and their sums are exact, where the reference rounds
    sums to float32: a `uniform` next to the border between two tokens can give the other one.
    """
    settings = _settings((uniform, temperature, top_k, top_p, min_p), logits.device)
    picked = sample_rows(logits.unsqueeze(0), bitmask.unsqueeze(0), settings).cpu()
    check_picked("sample", picked)
    return int(picked)


def _settings(values: tuple[float, ...], device: torch.device) -> SamplingTensors:
    """Return one row's settings as parts of one tensor, for which a GPU gets one copy and nothing waits."""
    host = torch.from_numpy(np.array([values], _SETTINGS).view(np.uint8))
    if device.type == "cuda":
        host = host.pin_memory()
    packed = host.to(device, non_blocking=True)
    starts = range(0, _SETTINGS.itemsize, 16)
    return SamplingTensors(*(packed[at : at + t.itemsize].view(t) for at, t in zip(starts, _DTYPES, strict=True)))


def sample_rows(logits: torch.Tensor, bitmask: torch.Tensor, settings: SamplingTensors) -> torch.Tensor:
    """Draw one token per row as `sample` does, without a wait: faults come as ids below 0.

    Args:
        logits: `[num_rows, num_logits]`, float32, bfloat16 or float16.
        bitmask: `[num_rows, ceil(num_logits / 32)]`, int32, on the device of `logits`.
        settings: of each row.

    Returns:
        `[num_rows]`, int64, new; ids below 0 as `masked_argmax_unchecked` gives them, for `check_picked`.

    Raises:
        KernelInputError: shapes do not match, or a setting has another dtype.
    """
    num_rows, num_logits = logits.shape
    check_shape("sample", "bitmask", bitmask, (num_rows, -(-num_logits // 32)))
    for (name, setting), dtype in zip(settings._asdict().items(), _DTYPES, strict=True):
        check_shape("sample", name, setting, (num_rows,))
        check_dtype("sample", name, setting, (dtype,))
    picked = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    if num_rows == 0:
        return picked
    logits, bitmask = (t if t.stride(1) == 1 else t.contiguous() for t in (logits, bitmask))
    _sample_kernel[(num_rows,)](
        logits,
        bitmask,
        *(setting.contiguous() for setting in settings),
        picked,
        num_logits,
        logits.stride(0),
        bitmask.stride(0),
        BLOCK_N=min(_BLOCK_N, triton.next_power_of_2(num_logits)),
        DIGIT_BITS=_DIGIT_BITS,
        num_warps=16,
    )
    return picked


AOT: tuple[AotCase, ...] = tuple(
    AotCase(
        f"sample {dtype}",
        _sample_kernel,
        {
            "logits_ptr": pointer,
            "bitmask_ptr": "*i32",
            "uniform_ptr": "*fp64",
            "temperature_ptr": "*fp32",
            "top_k_ptr": "*i32",
            "top_p_ptr": "*fp32",
            "min_p_ptr": "*fp32",
            "picked_ptr": "*i64",
            "num_logits": "i32",
            "logits_stride_row": "i32",
            "bitmask_stride_row": "i32",
            "BLOCK_N": "constexpr",
            "DIGIT_BITS": "constexpr",
        },
        {"BLOCK_N": _BLOCK_N, "DIGIT_BITS": _DIGIT_BITS},
        num_warps=16,
    )
    for dtype, pointer in (("float32", "*fp32"), ("bfloat16", "*bf16"), ("float16", "*fp16"))
)
