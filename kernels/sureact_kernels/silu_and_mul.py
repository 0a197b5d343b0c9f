"""The gate of a SwiGLU block."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import FLOAT_DTYPES, check_dtype
from sureact_kernels.dispatch import version_of
from sureact_kernels.errors import KernelInputError

MAX_SERIAL_ELEMENTS = 32767
"""Elements up to which torch runs a CPU loop on one thread. It cuts larger ones into shares inside of rows and takes
another routine at the end of each, so that a row's bits would depend on the rows beside it."""


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Multiply the SiLU of the first half of each row by the second half.

        out[t, d] = silu(gate_up[t, d]) * gate_up[t, intermediate_size + d]

    Args:
        gate_up: `[num_tokens, 2 * intermediate_size]`, float16, bfloat16 or float32.

    Returns:
        `[num_tokens, intermediate_size]`, dtype of `gate_up`, new.

    Raises:
        KernelInputError: the last dimension is odd, or the dtype is not supported.

    Source: Shazeer 2020, arXiv:2002.05202.
    """
    check_dtype("silu_and_mul", "gate_up", gate_up, FLOAT_DTYPES)
    if gate_up.shape[-1] % 2:
        raise KernelInputError(f"silu_and_mul: the last dimension of gate_up is {gate_up.shape[-1]}; it must be even.")
    version = version_of("silu_and_mul", gate_up)
    return _reference(gate_up) if version is None else version.silu_and_mul(gate_up)


def _reference(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    if gate_up.device.type != "cpu" or gate_up.shape[0] == 1:
        return F.silu(gate) * up
    out = torch.empty(gate.shape, dtype=gate.dtype)
    step = max(1, MAX_SERIAL_ELEMENTS // gate.shape[1])
    for start in range(0, gate.shape[0], step):
        rows = slice(start, start + step)
        torch.mul(F.silu(gate[rows]), up[rows], out=out[rows])
    return out
