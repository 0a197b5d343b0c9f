"""What an op raises. Knows nothing of sureact."""


class KernelInputError(ValueError):
    """A tensor's shape, dtype, device or layout does not fit the op's contract."""
