"""The likeliest token among those a bitmask allows."""

import torch

from sureact_kernels.arguments import check_device, check_dtype, check_shape
from sureact_kernels.dispatch import version_on_gpu
from sureact_kernels.errors import KernelInputError

NOTHING_ALLOWED = -1
"""Picked by `masked_argmax_unchecked` in a row whose mask allows nothing."""

IS_NAN = -2
"""Picked by `masked_argmax_unchecked` in a row of which an allowed logit is NaN."""


def masked_argmax(logits: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Pick the allowed token with the largest logit per row; the lowest id on ties.

        out[b] = argmax over {i : bit (i % 32) of bitmask[b, i // 32] is 1} of logits[b, i]

    Waits for the GPU, to raise; `masked_argmax_unchecked` does not.

    Args:
        logits: `[num_rows, num_logits]`, float32.
        bitmask: `[num_rows, ceil(num_logits / 32)]`, int32, on the device of `logits`; at least one bit per row. Bits
            beyond the last logit mean nothing.

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
        raise _is_nan("masked_argmax")
    return picked


def masked_argmax_unchecked(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    seen: torch.Tensor | None = None,
    penalties: torch.Tensor | None = None,
) -> torch.Tensor:
    """Pick as `masked_argmax` does, but tell faults by ids below 0, so that nothing waits for the GPU.

    It can be captured in a CUDA graph: nothing is read on the host, and every shape follows from those given.
    The logits of ids that a row has seen are penalized first, as `penalized` does.

    Args:
        logits: `[num_rows, num_logits]`, float32.
        bitmask: `[num_rows, ceil(num_logits / 32)]`, int32, on the device of `logits`.
        seen: like `bitmask`, the ids that stand in a row's text; None is none.
        penalties: `[num_rows]`, float32, beside `seen` on that device; above 0, and 1 leaves a row as it is.

    Returns:
        `[num_rows]`, int64, new; `NOTHING_ALLOWED` or `IS_NAN` where there is no pick, for which `check_picked` raises.

    Raises:
        KernelInputError: shapes do not match, or `seen` or `penalties` has another dtype or is on another device.
    """
    num_rows, num_logits = logits.shape
    check_shape("masked_argmax", "bitmask", bitmask, (num_rows, -(-num_logits // 32)))
    if (seen is None) != (penalties is None):
        raise KernelInputError("masked_argmax: seen and penalties come together; one of them is missing.")
    if seen is not None and penalties is not None:
        check_shape("masked_argmax", "seen", seen, tuple(bitmask.shape))
        check_shape("masked_argmax", "penalties", penalties, (num_rows,))
        for name, tensor, dtype in (("seen", seen, torch.int32), ("penalties", penalties, torch.float32)):
            check_dtype("masked_argmax", name, tensor, (dtype,))
            check_device("masked_argmax", name, tensor, logits.device)
    version = version_on_gpu("masked_argmax", logits, bitmask)
    if version is not None:
        return version.masked_argmax_unchecked(logits, bitmask, seen, penalties)
    allowed = _bits(bitmask, num_logits)
    if seen is not None and penalties is not None:
        logits = torch.where(_bits(seen, num_logits), penalized(logits, penalties.unsqueeze(1)), logits)
    best = torch.where(allowed, logits, -torch.inf).amax(1, keepdim=True)
    picked = (allowed & (logits == best)).to(torch.uint8).argmax(1)
    picked = torch.where(allowed.any(1), picked, NOTHING_ALLOWED)
    return torch.where(best.squeeze(1).isnan(), IS_NAN, picked)


def penalized(logits: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    """Divide positive logits by `penalty` and multiply the others with it.

    Args:
        logits: any shape, float32.
        penalty: float32, on the device of `logits`, a tensor even where it is one number: a GPU divides by a number of
            the host in another way.

    Source: Keskar et al. 2019, arXiv:1909.05858, as transformers has it.
    """
    return torch.where(logits > 0, logits / penalty, logits * penalty)


def check_picked(op: str, picked: torch.Tensor) -> None:
    """Raise what the ids below 0 in `picked` say; waits for the GPU.

    Args:
        op: named in the error.
        picked: ids of rows, as `masked_argmax_unchecked` returns them; on any device.

    Raises:
        KernelInputError: a row allows nothing, or a logit is NaN.
    """
    lowest = int(picked.min()) if picked.numel() else 0
    if lowest == IS_NAN:
        raise _is_nan(op)
    if lowest == NOTHING_ALLOWED:
        raise _nothing_allowed(op)


def allowed_ids(bitmask_row: torch.Tensor, num_logits: int | None = None) -> torch.Tensor:
    """Return the ids whose bit is set in `bitmask_row` `[num_words]`, ascending, int64; those below `num_logits`."""
    words = bitmask_row.nonzero().flatten()
    bits = torch.arange(32, dtype=torch.int32, device=bitmask_row.device)
    is_set = (bitmask_row[words].unsqueeze(1) >> bits) & 1
    ids = words.unsqueeze(1) * 32 + bits
    ids = ids[is_set.bool()]
    return ids if num_logits is None or num_logits == 32 * len(bitmask_row) else ids[ids < num_logits]


def _bits(bitmask: torch.Tensor, num_logits: int) -> torch.Tensor:
    """Unpack `[num_rows, num_words]` to `[num_rows, num_logits]`, bool."""
    bits = torch.arange(32, dtype=torch.int32, device=bitmask.device)
    return ((bitmask.unsqueeze(-1) >> bits) & 1).flatten(1)[:, :num_logits].bool()


def _argmax_of_row(logits: torch.Tensor, bitmask_row: torch.Tensor) -> torch.Tensor:
    ids = allowed_ids(bitmask_row, len(logits))
    if ids.numel() == 0:
        raise _nothing_allowed("masked_argmax")
    return ids[logits[ids].argmax()]


def _is_nan(op: str) -> KernelInputError:
    return KernelInputError(f"{op}: a logit is NaN; the weights or the cache are damaged.")


def _nothing_allowed(op: str) -> KernelInputError:
    return KernelInputError(f"{op}: a row of the bitmask allows no token.")
