"""Rows of the embedding table."""

import torch

from sureact_kernels.arguments import check_dtype, check_shape
from sureact_kernels.dispatch import version_on_gpu


def embedding(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Look up one row of `weight` per token.

        out[t] = weight[token_ids[t]]

    Does not wait for a GPU, and can be captured in a CUDA graph; there, a token outside of the table is no error but a
    row of NaN, where Triton's version computes.

    Args:
        token_ids: `[num_tokens]`, int64, each in `[0, vocab_size)`.
        weight: `[vocab_size, hidden_size]`, any float dtype.

    Returns:
        `[num_tokens, hidden_size]`, dtype of `weight`, new.

    Raises:
        KernelInputError: `token_ids` is not one row of int64.
    """
    check_shape("embedding", "token_ids", token_ids, (None,))
    check_dtype("embedding", "token_ids", token_ids, (torch.int64,))
    # There is none in C++: torch copies rows as fast as the memory gives them.
    version = version_on_gpu("embedding", token_ids, weight)
    return weight.index_select(0, token_ids) if version is None else version.embedding(token_ids, weight)
