"""Products with a weight matrix in each of its forms; int8 and int4 on a CPU only."""

import torch
from benchmarks.harness import HIDDEN_SIZE, INTERMEDIATE_SIZE, device, print_machine, report

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.int4_product import pack_int4
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import DenseWeight, Int4Weight, Int8Weight, LinearWeight, linear
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the dense product against float64, then time each form with one and with many rows."""
    print_machine()
    dense = torch.randn(2 * INTERMEDIATE_SIZE, HIDDEN_SIZE, device=device()) / HIDDEN_SIZE**0.5
    weights: dict[str, LinearWeight] = {"bfloat16": DenseWeight(dense.bfloat16())}
    if device().type == "cpu":
        int8 = quantize_int8(dense)
        packed = pack_int8(int8.weight)
        int4 = quantize_int4(dense)
        packed_int4 = pack_int4(int4.nibbles, int4.scales_and_zeros, int4.group_size)
        weights["int8 not packed"] = int8
        weights["int4"] = Int4Weight(int4.nibbles, int4.scales_and_zeros, int4.group_size, packed_int4)
        if packed is not None:
            weights["int8"] = Int8Weight(int8.weight, int8.scales.float(), packed)
    for num_tokens in (1, 2, 4, 8, 16, 256, 1024):
        x = torch.randn(num_tokens, HIDDEN_SIZE, device=device())
        assert_close(linear(x, weights["bfloat16"]), x.double() @ dense.double().T, torch.bfloat16)
        for form, weight in weights.items():
            report(
                "linear",
                f"[{num_tokens}, {HIDDEN_SIZE}] x {weight.out_features} {form}",
                lambda x=x, weight=weight: linear(x, weight),
                num_bytes=x.nbytes + weight.num_bytes + 4 * num_tokens * weight.out_features,
            )


if __name__ == "__main__":
    main()
