"""The likeliest token among those a bitmask allows."""

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.dispatch import version_on_gpu
from sureact_kernels.errors import KernelInputError


def masked_argmax(logits: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Pick the allowed token with the largest logit per row; the lowest id on ties.

        out[b] = argmax over {i : bit (i % 32) of bitmask[b, i // 32] is 1} of logits[b, i]

    Args:
        logits: `[num_rows, num_logits]`, float32.
        bitmask: `[num_rows, ceil(num_logits / 32)]`, int32, on the device of `logits`; at least one bit per row.

    Returns:
        `[num_rows]`, int64, new.

    Raises:
        KernelInputError: shapes do not match, a logit is NaN, or a row allows nothing.
    """
    num_rows, num_logits = logits.shape
    check_shape("masked_argmax", "bitmask", bitmask, (num_rows, -(-num_logits // 32)))
    version = version_on_gpu("masked_argmax", logits, bitmask)
    if version is not None:
        return version.masked_argmax(logits, bitmask)
    picked = logits.argmax(dim=-1)
    # Nearly always the likeliest token is allowed, and then it is the answer: only the other rows need the whole mask.
    words = bitmask.gather(1, (picked // 32).unsqueeze(1)).squeeze(1)
    allowed = (words >> (picked % 32).to(torch.int32)) & 1
    for row in (allowed == 0).nonzero().flatten().tolist():
        picked[row] = _argmax_of_row(logits[row], bitmask[row])
    if logits.gather(1, picked.unsqueeze(1)).isnan().any():
        raise KernelInputError("masked_argmax: a logit is NaN; the weights or the cache are damaged.")
    return picked


def allowed_ids(bitmask_row: torch.Tensor) -> torch.Tensor:
    """Return the ids whose bit is set in `bitmask_row` `[num_words]`, ascending, int64."""
    words = bitmask_row.nonzero().flatten()
    bits = torch.arange(32, dtype=torch.int32, device=bitmask_row.device)
    is_set = (bitmask_row[words].unsqueeze(1) >> bits) & 1
    ids = words.unsqueeze(1) * 32 + bits
    return ids[is_set.bool()]


def _argmax_of_row(logits: torch.Tensor, bitmask_row: torch.Tensor) -> torch.Tensor:
    ids = allowed_ids(bitmask_row)
    if ids.numel() == 0:
        raise KernelInputError("masked_argmax: a row of the bitmask allows no token.")
    return ids[logits[ids].argmax()]
