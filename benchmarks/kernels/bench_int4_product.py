"""The int4 product for the widest and for the longest matrix; on a CPU only."""

import torch
from benchmarks.harness import HIDDEN_SIZE, INTERMEDIATE_SIZE, print_machine, report

from sureact_kernels.int4_product import int4_product, pack_int4, to_nibbles
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the product against float64, then time it."""
    print_machine()
    for out_features, in_features in ((2 * INTERMEDIATE_SIZE, HIDDEN_SIZE), (HIDDEN_SIZE, INTERMEDIATE_SIZE)):
        steps = torch.randint(0, 16, (out_features, in_features), dtype=torch.uint8)
        bounds = torch.randn(in_features // 32, out_features, 2).to(torch.bfloat16)
        packed = pack_int4(to_nibbles(steps), bounds, 32)
        scale, zero = bounds.double().repeat_interleave(32, dim=0).unbind(-1)
        matrix = (steps.double() - 8) * scale.T + zero.T
        for num_rows in (1, 4, 16, 256):
            x = torch.randn(num_rows, in_features)
            assert_close(int4_product(x, packed), x.double() @ matrix.T, torch.bfloat16)
            report(
                "int4_product",
                f"[{num_rows}, {in_features}] x {out_features}",
                lambda x=x, packed=packed: int4_product(x, packed),
                num_bytes=x.nbytes + steps.nbytes // 2 + bounds.nbytes + 4 * num_rows * out_features,
            )


if __name__ == "__main__":
    main()
