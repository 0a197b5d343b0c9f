"""The exact int8 product and its two halves: writing rows as bytes, and joining the products of the bytes."""

import torch
from benchmarks.harness import HIDDEN_SIZE, INTERMEDIATE_SIZE, print_machine, report

from sureact_kernels.int8_product import combine_planes, int8_product, pack_int8, quantize_rows


def main() -> None:
    """Check the product against integer arithmetic, then time it for the widest and for the longest matrix."""
    print_machine()
    for out_features, in_features in ((2 * INTERMEDIATE_SIZE, HIDDEN_SIZE), (HIDDEN_SIZE, INTERMEDIATE_SIZE)):
        weight = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8)
        packed, scales = pack_int8(weight), torch.rand(out_features)
        if packed is None:
            print("This CPU has no exact int8 product.")
            return
        for num_rows in (1, 4, 16, 256):
            x = torch.randn(num_rows, in_features)
            rows = quantize_rows(x)
            exact = (rows.planes.double() - 128) @ weight.double().T
            products = exact.float() * scales
            assert torch.equal(int8_product(x, packed, scales), combine_planes(products.clone(), rows.steps))
            shape = f"[{num_rows}, {in_features}] x {out_features}"
            num_bytes = x.nbytes + weight.nbytes + products.nbytes // 2
            report(
                "int8_product",
                shape,
                lambda x=x, packed=packed, scales=scales: int8_product(x, packed, scales),
                num_bytes=num_bytes,
            )
            report("quantize_rows", shape, lambda x=x: quantize_rows(x), num_bytes=x.nbytes + rows.planes.nbytes)
            report(
                "combine_planes",
                shape,
                lambda products=products, steps=rows.steps: combine_planes(products, steps),
                num_bytes=3 * products.nbytes // 2,
            )


if __name__ == "__main__":
    main()
