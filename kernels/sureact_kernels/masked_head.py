"""Logits of only those tokens that a mask allows, where they are few."""

import numpy as np
import torch

from sureact_kernels.arguments import check_dtype, check_shape
from sureact_kernels.dispatch import is_on_gpu, version_on_gpu
from sureact_kernels.int4_product import int4_blocks, int4_product
from sureact_kernels.int8_product import combine_planes, quantize_rows
from sureact_kernels.linear import Int4Weight, Int8Weight, LinearWeight, linear, tensors_of

MOST_IDS = 1024
"""Ids, over all rows of a call, whose rows of an int8 head are gathered: at that number it takes about a third of the
time of reading a whole head of 152,000 rows, and with few ids a thirtieth."""

MOST_INT4_BLOCKS = 256
"""The same for int4, whose rows come in blocks of `_INT4_BLOCK`."""

_INT4_BLOCK = 64
"""Rows that are packed together; a multiple of what any CPU packs."""


def masked_head(x: torch.Tensor, weight: LinearWeight, bitmask: torch.Tensor) -> torch.Tensor:
    """Multiply rows by the head, where a row's mask allows few ids by the rows of those ids only.

        out[t, n] = linear(x, weight)[t, n]   where bit (n % 32) of bitmask[t, n // 32] is 1
                  = -inf                      where bitmask[t, n // 32] is 0, and nothing or -inf elsewhere

    Logits that are computed have the bits that `linear` gives. On a CPU, rows that allow many ids share one product
    with the whole head, and weights that are dense or not packed always take it. A GPU reads 32 rows of the head for
    every word that is not 0, and is not waited for.

    Args:
        x: `[num_rows, hidden_size]`, as `linear` takes it.
        weight: `[num_logits, hidden_size]`.
        bitmask: `[num_rows, ceil(num_logits / 32)]`, int32, on the CPU, or on the device of `x`, as it has to be in a
            CUDA graph. From pinned memory it is copied while the host goes on: leave it as it is until then.

    Returns:
        `[num_rows, num_logits]`, float32, new. With the whole head, a row's logits are there whatever its mask.

    Raises:
        KernelInputError: the shape or dtype of `bitmask` does not fit, or `linear` does not take `x`.
    """
    check_shape("masked_head", "bitmask", bitmask, (len(x), -(-weight.out_features // 32)))
    check_dtype("masked_head", "bitmask", bitmask, (torch.int32,))
    if is_on_gpu(x):
        version = version_on_gpu("masked_head", x, *tensors_of(weight))
        if version is not None:
            return version.masked_head(x, weight, bitmask)
    if not _can_gather(weight):
        return linear(x, weight).float()
    num_allowed = np.bitwise_count(bitmask.numpy().view(np.uint32)).sum(axis=1)
    is_short = torch.from_numpy(num_allowed <= MOST_IDS)
    short = is_short.nonzero().flatten()
    ids = _allowed_by_any(bitmask[short], weight.out_features)
    if not len(short) or not _pays(weight, ids):
        return linear(x, weight).float()
    out = torch.full((len(x), weight.out_features), -torch.inf)
    if len(short) < len(x):
        rest = (~is_short).nonzero().flatten()
        out[rest] = linear(x[rest], weight).float()
    if len(ids):
        is_allowed = (bitmask[short][:, ids // 32] >> (ids % 32).to(torch.int32)) & 1
        logits = _gathered(x[short], weight, ids).masked_fill_(is_allowed == 0, -torch.inf)
        out[short[:, None], ids] = logits
    return out


def _pays(weight: LinearWeight, ids: torch.Tensor) -> bool:
    """Tell whether the rows of `ids` are gathered faster than the whole head is read."""
    if isinstance(weight, Int4Weight):
        return len((ids // _INT4_BLOCK).unique_consecutive()) <= MOST_INT4_BLOCKS
    return len(ids) <= MOST_IDS


def _can_gather(weight: LinearWeight) -> bool:
    if isinstance(weight, Int8Weight):
        return weight.packed is not None
    return isinstance(weight, Int4Weight) and weight.packed is not None and weight.out_features % _INT4_BLOCK == 0


def _allowed_by_any(bitmask: torch.Tensor, num_logits: int) -> torch.Tensor:
    """Return the ids that any row allows, ascending."""
    words = bitmask.any(0).nonzero().flatten()
    bits = torch.arange(32, dtype=torch.int32)
    is_allowed = ((bitmask[:, words].unsqueeze(-1) >> bits) & 1).any(0)
    ids = (words.unsqueeze(1) * 32 + bits)[is_allowed]
    return ids[ids < num_logits]


def _gathered(x: torch.Tensor, weight: LinearWeight, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of `ids`, `[num_rows, num_ids]`, float32."""
    if isinstance(weight, Int8Weight):
        rows = quantize_rows(x.float())
        # Exact in float64, as the packed product is in int32.
        products = (rows.planes.double() - 128) @ weight.weight[ids].double().T
        return combine_planes(products.float().mul_(weight.scales[ids]), rows.steps).to(x.dtype).float()
    assert isinstance(weight, Int4Weight), "dense weights are not gathered"
    assert weight.packed is not None, "weights that are not packed are not gathered"
    blocks, place = (ids // _INT4_BLOCK).unique(return_inverse=True)
    logits = int4_product(x.float(), int4_blocks(weight.packed, blocks)).to(x.dtype).float()
    return logits[:, place * _INT4_BLOCK + ids % _INT4_BLOCK]
