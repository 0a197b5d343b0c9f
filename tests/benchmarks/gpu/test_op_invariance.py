import torch
from benchmarks.gpu.bits import EQUAL
from benchmarks.gpu.op_invariance import RowOp, check_row_op, op_checks
from benchmarks.kernels.case import MODELS


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def centered(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(0)


def counted(x: torch.Tensor) -> torch.Tensor:
    return x + (len(x) > 4)


def test_every_op_of_a_model_is_checked() -> None:
    names = [name for name, _ in op_checks(MODELS["tiny"], (1, 3))]
    for op in ("rms_norm", "add_rms_norm", "silu_and_mul", "embedding", "qk_norm_rope_store", "masked_argmax"):
        assert op in names
    for matrix in ("qkv", "o", "gate_up", "down", "head"):
        assert f"linear {matrix} bfloat16" in names
    assert {"gated_linear int8", "masked_head int4", "paged_attention, decode"} <= set(names)


def test_a_row_that_depends_on_its_neighbors_is_found() -> None:
    x = torch.rand(9, 4, generator=torch.Generator().manual_seed(0))
    assert check_row_op(RowOp(x, doubled), (1, 3, 8)) == EQUAL
    found = check_row_op(RowOp(x, centered), (1, 3, 8))
    assert found.num_elements == 4
    assert found.first.startswith("row 0 of 3: 4 of 4 elements differ, first 0:")


def test_a_row_that_depends_on_their_number_is_found() -> None:
    x = torch.rand(9, 4, generator=torch.Generator().manual_seed(0))
    found = check_row_op(RowOp(x, counted), (1, 3, 8))
    assert found.first.startswith("row 0 of 8:")
