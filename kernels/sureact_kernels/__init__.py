"""Operations of a decoder-only transformer, each with its contract, a torch reference and (where it exists) Triton.

Import an op from its own module: `from sureact_kernels.rms_norm import rms_norm`. Nothing is re-exported here, so that
a module and its function can share a name.
"""
