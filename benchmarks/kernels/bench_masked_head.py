"""The head for rows whose mask allows few tokens, and the whole head, in int8 and int4; on a CPU only."""

import torch
from benchmarks.harness import HIDDEN_SIZE, VOCAB_SIZE, print_machine, report

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.int4_product import pack_int4
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import Int4Weight, Int8Weight, LinearWeight, linear
from sureact_kernels.masked_head import masked_head


def main() -> None:
    """Check that the allowed logits have the bits of the whole product, then time both."""
    print_machine()
    matrix = torch.randn(VOCAB_SIZE, HIDDEN_SIZE, dtype=torch.bfloat16) / HIDDEN_SIZE**0.5
    int8 = quantize_int8(matrix)
    packed = pack_int8(int8.weight)
    int4 = quantize_int4(matrix)
    packed_int4 = pack_int4(int4.nibbles, int4.scales_and_zeros, int4.group_size)
    weights: dict[str, LinearWeight] = {
        "int8": int8 if packed is None else Int8Weight(int8.weight, int8.scales.float(), packed),
        "int4": Int4Weight(int4.nibbles, int4.scales_and_zeros, int4.group_size, packed_int4),
    }
    order = torch.randperm(VOCAB_SIZE)
    for form, weight in weights.items():
        for num_rows in (1, 4, 16):
            x = torch.randn(num_rows, HIDDEN_SIZE)
            whole = linear(x, weight)
            report("linear", f"{num_rows} rows, {form}", lambda x=x, w=weight: linear(x, w), num_bytes=weight.num_bytes)
            for num_ids in (1, 30, 200, 1000):
                ids = order[:num_ids]
                bitmask = _bitmask_of(ids).expand(num_rows, -1).contiguous()
                assert torch.equal(masked_head(x, weight, bitmask)[:, ids], whole[:, ids])
                report(
                    "masked_head",
                    f"{num_rows} rows, {num_ids} ids, {form}",
                    lambda x=x, w=weight, bitmask=bitmask: masked_head(x, w, bitmask),
                    num_bytes=weight.num_bytes * num_ids // VOCAB_SIZE + whole.nbytes,
                )


def _bitmask_of(ids: torch.Tensor) -> torch.Tensor:
    bits = torch.zeros(VOCAB_SIZE // 32, 32, dtype=torch.int64)
    bits.view(-1)[ids] = 1
    return (bits << torch.arange(32)).sum(1).to(torch.int32)


if __name__ == "__main__":
    main()
