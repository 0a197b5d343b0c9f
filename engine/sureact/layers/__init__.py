"""Parts of a transformer block, built on the ops of sureact_kernels."""
