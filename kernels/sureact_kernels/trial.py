"""Runs every op once on tiny tensors: does its Triton version compile and run on this GPU?"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.advance_rows import DecodeRows, advance_rows
from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.dispatch import disabled
from sureact_kernels.embedding import embedding
from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import DenseWeight, linear
from sureact_kernels.masked_argmax import masked_argmax
from sureact_kernels.masked_head import masked_head
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.sample import sample
from sureact_kernels.silu_and_mul import silu_and_mul
from sureact_kernels.stop_match import stop_match

_HEAD_DIM, _BLOCK_SIZE = 64, 16


def trial(device: torch.device) -> dict[str, str]:
    """Run every op that has a Triton version once, in bfloat16; compiles, so it may take seconds.

    Args:
        device: where; a GPU.

    Returns:
        The ops whose Triton version is off in this process, or that failed, with the reasons.
    """
    failed: dict[str, str] = {}
    for op, run in _runs(device).items():
        try:
            run()
        except Exception as error:  # whatever it is, it is what the report is about
            failed[op] = f"{type(error).__name__}: {error}"
    return disabled() | failed


def _runs(device: torch.device) -> dict[str, Callable[[], object]]:
    """Return a call of each op: two rows, sizes that every version takes."""
    x = torch.ones(2, 2 * _HEAD_DIM, dtype=torch.bfloat16, device=device)
    weight = DenseWeight(torch.ones(64, x.shape[1], dtype=x.dtype, device=device))
    logits = torch.zeros(2, 64, device=device)
    bitmask = torch.full((2, 2), -1, dtype=torch.int32, device=device)
    numbers = torch.ones(2, 2, dtype=torch.int32, device=device)
    norm, q = x[0, :_HEAD_DIM], x.view(2, 2, _HEAD_DIM)
    qkv, angles = torch.cat((x, x), 1), torch.ones(2, _HEAD_DIM, device=device)
    slots = torch.arange(2, device=device)
    keys, values = torch.zeros(2, 2, _BLOCK_SIZE, 1, _HEAD_DIM, dtype=x.dtype, device=device)
    plan = plan_attention(slots.unsqueeze(1), [1, 1], [1, 1], block_size=_BLOCK_SIZE, group=2)
    rows = DecodeRows(
        token_ids=slots.clone(),
        positions=slots.clone(),
        context_lens=numbers[0].clone(),
        slots=slots.clone(),
        is_running=numbers[0].clone(),
        block_tables=torch.zeros(2, 1, dtype=torch.int64, device=device),
        recent=numbers.clone(),
        num_generated=numbers[0].clone(),
        stops=numbers,
        stops_of_row=numbers,
        seen=bitmask.clone(),
        results=torch.zeros(2, 2, dtype=torch.int64, device=device),
    )
    return {
        "embedding": lambda: embedding(slots, weight.weight),
        "rms_norm": lambda: rms_norm(x, x[0], 1e-6),
        "add_rms_norm": lambda: add_rms_norm(x, x.clone(), x[0], 1e-6),
        "linear": lambda: linear(x, weight),
        "gated_linear": lambda: gated_linear(x, weight),
        "silu_and_mul": lambda: silu_and_mul(x),
        "qk_norm_rope_store": lambda: qk_norm_rope_store(
            qkv, angles, angles, keys, values, slots, HeadNorm(norm, norm, 1e-6)
        ),
        "paged_attention": lambda: paged_attention(q, keys, values, plan, 1.0),
        "masked_head": lambda: masked_head(x, weight, bitmask),
        "masked_argmax": lambda: masked_argmax(logits, bitmask),
        "sample": lambda: sample(logits[0], bitmask[0], 0.5, temperature=1.0),
        "advance_rows": lambda: advance_rows(slots, rows, block_size=_BLOCK_SIZE, dummy_slot=0),
        "stop_match": lambda: stop_match(numbers, numbers[0], numbers, numbers),
    }
