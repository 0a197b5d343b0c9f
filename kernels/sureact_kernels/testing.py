"""What the tests of every op share: shapes that find off-by-one errors, and how far a result may be from float64."""

import torch

AWKWARD_SIZES = (1, 63, 123, 160, 1000, 1008)
"""One, just below and above a power of two, a large size that is no multiple of 16, and an even and an odd multiple."""

RELATIVE_TOLERANCE = {
    # 24 bits of mantissa; sums of up to 1,000 terms lose about 7 bits more in the worst order.
    torch.float32: 2e-5,
    # 11 bits of mantissa; one rounding of the inputs and one of the result.
    torch.float16: 2e-3,
    # 8 bits of mantissa; one rounding of the inputs and one of the result.
    torch.bfloat16: 1.6e-2,
}


def assert_close(actual: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> None:
    """Assert that `actual` equals the float64 statement `exact` within the tolerance of `dtype`.

    The absolute tolerance is the relative one times the largest value, since a sum may cancel.
    """
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    tolerance = RELATIVE_TOLERANCE[dtype]
    torch.testing.assert_close(actual.double(), exact.double(), rtol=tolerance, atol=tolerance * max(scale, 1e-6))
