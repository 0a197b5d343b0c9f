"""Does the end of a row equal one of its stop token sequences?"""

import torch

from sureact_kernels.arguments import check_dtype, check_shape
from sureact_kernels.dispatch import version_on_gpu

PADDING = -1
"""Fills a stop sequence up on the left; no token id."""


def stop_match(
    recent: torch.Tensor, lengths: torch.Tensor, stops: torch.Tensor, stops_of_row: torch.Tensor
) -> torch.Tensor:
    """Find, for each row, the first of its stop sequences that equals the row's last tokens.

        n[s] = number of tokens in stops[s]
        out[b] = min {s : first[b] <= s < end[b], 0 < n[s] <= lengths[b], recent[b, -n[s]:] == stops[s, -n[s]:]}, or -1

    Exact over token ids: a text that other tokens spell is not found. Does not wait for the GPU, and can be
    captured in a CUDA graph.

    Args:
        recent: `[num_rows, max_stop_len]`, int32: the last tokens of each row, the newest at the right.
        lengths: `[num_rows]`, int32: how many tokens a row has, so how many of `recent` count; may pass `max_stop_len`.
        stops: `[num_stops, max_stop_len]`, int32: the sequences of all rows, at the right, after `PADDING`.
        stops_of_row: `[num_rows, 2]`, int32: the first of a row's stops and the end of them; what lies outside
            `stops` is no stop.

    Returns:
        `[num_rows]`, int32, new: a row of `stops`, or -1.

    Raises:
        KernelInputError: shapes do not match, or a tensor is not int32.
    """
    num_rows, max_stop_len = recent.shape
    check_shape("stop_match", "lengths", lengths, (num_rows,))
    check_shape("stop_match", "stops", stops, (None, max_stop_len))
    check_shape("stop_match", "stops_of_row", stops_of_row, (num_rows, 2))
    tensors = {"recent": recent, "lengths": lengths, "stops": stops, "stops_of_row": stops_of_row}
    for name, tensor in tensors.items():
        check_dtype("stop_match", name, tensor, (torch.int32,))
    # There is no version for a CPU: rows and stops are few.
    version = version_on_gpu("stop_match", *tensors.values())
    return _reference(**tensors) if version is None else version.stop_match(**tensors)


def _reference(
    recent: torch.Tensor, lengths: torch.Tensor, stops: torch.Tensor, stops_of_row: torch.Tensor
) -> torch.Tensor:
    if len(stops) == 0:
        return torch.full_like(lengths, -1)
    is_padding = stops == PADDING
    sizes = (~is_padding).sum(1)
    ids = torch.arange(len(stops), dtype=torch.int32, device=recent.device)
    equal = ((stops == recent[:, None]) | is_padding).all(2)
    fits = (sizes > 0) & (sizes <= lengths[:, None])
    is_own = (ids >= stops_of_row[:, :1]) & (ids < stops_of_row[:, 1:])
    matches = equal & fits & is_own
    first = matches.to(torch.int32).argmax(1).to(torch.int32)
    return torch.where(matches.any(1), first, -1)
