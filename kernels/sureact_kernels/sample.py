"""A random token by temperature, top-k, top-p and min-p, among those a bitmask allows."""

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.dispatch import version_on_gpu
from sureact_kernels.errors import KernelInputError
from sureact_kernels.masked_argmax import allowed_ids


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
    """Draw one token: the first, by falling probability, at which the cumulated probability passes `uniform`.

    Filters apply in the order mask, temperature, top_k, top_p, min_p; the token that crosses `top_p` stays in, and the
    likeliest token always does. Equal logits are ordered by id, so that the same `uniform` gives the same token. Where
    the largest is infinite, those equal to it share alike, and no other is drawn.

    Args:
        logits: `[num_logits]`, float32.
        bitmask: `[ceil(num_logits / 32)]`, int32. Bits beyond the last logit mean nothing.
        uniform: the random number, in [0, 1).
        temperature: divides the logits, > 0.
        top_k: keep the likeliest `top_k`; 0 keeps all.
        top_p: keep the likeliest tokens whose probabilities add up to `top_p`; 0 keeps the first one.
        min_p: keep tokens at least `min_p` times as likely as the likeliest; from 1 on those that are as likely.

    Returns:
        The token id.

    Raises:
        KernelInputError: nothing is allowed, or a logit is NaN.

    Source: Holtzman et al. 2019, arXiv:1904.09751 (top-p); Nguyen et al. 2024, arXiv:2407.01082 (min-p).
    """
    check_shape("sample", "bitmask", bitmask, (-(-logits.shape[0] // 32),))
    version = version_on_gpu("sample", logits, bitmask)
    if version is not None:
        return version.sample(logits, bitmask, uniform, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    ids = allowed_ids(bitmask, len(logits))
    if ids.numel() == 0:
        raise KernelInputError("sample: the bitmask allows no token.")
    values, order = (logits[ids] / temperature).sort(descending=True, stable=True)
    if values.isnan().any():
        raise KernelInputError("sample: a logit is NaN; the weights or the cache are damaged.")
    if top_k:
        values = values[:top_k]
    if values[0].isinf():
        values = torch.where(values == values[0], 0.0, -torch.inf)
    probabilities = values.softmax(0)
    before = probabilities.cumsum(0) - probabilities
    keep = (before < top_p) & (probabilities >= min(min_p, 1.0) * probabilities[0]) & (probabilities > 0)
    keep[0] = True
    cumulated = (probabilities * keep).cumsum(0)
    position = int((cumulated <= uniform * cumulated[-1]).sum())
    return int(ids[order[min(position, int(keep.sum()) - 1)]])
