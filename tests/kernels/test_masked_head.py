from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels import dispatch
from sureact_kernels import masked_head as module
from sureact_kernels.errors import KernelInputError
from sureact_kernels.int4_product import pack_int4
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import DenseWeight, Int4Weight, Int8Weight, LinearWeight, linear
from sureact_kernels.masked_head import masked_head

NUM_LOGITS, HIDDEN_SIZE = 64 * 30, 896
FORMS = ("int8", "int4", "int8 not packed", "float32")


@cache
def head(form: str, ops: str, num_logits: int = NUM_LOGITS) -> LinearWeight:
    """Make a head once for each version of the ops, which pack it differently."""
    torch.manual_seed(0)
    matrix = torch.randn(num_logits, HIDDEN_SIZE) / 30
    if form == "float32":
        return DenseWeight(matrix)
    if form == "int4":
        int4 = quantize_int4(matrix)
        packed_int4 = pack_int4(int4.nibbles, int4.scales_and_zeros, int4.group_size)
        return Int4Weight(int4.nibbles, int4.scales_and_zeros, int4.group_size, packed_int4)
    weight = quantize_int8(matrix)
    packed = pack_int8(weight.weight) if form == "int8" else None
    return weight if packed is None else Int8Weight(weight.weight, weight.scales.float(), packed)


def is_gathered(weight: LinearWeight) -> bool:
    return isinstance(weight, Int4Weight | Int8Weight) and weight.packed is not None


def bitmask_of(rows: list[set[int]], num_logits: int = NUM_LOGITS) -> torch.Tensor:
    bits = torch.zeros(len(rows), -(-num_logits // 32) * 32, dtype=torch.int64)
    for row, ids in enumerate(rows):
        bits[row, sorted(ids)] = 1
    words = (bits.view(len(rows), -1, 32) << torch.arange(32)).sum(-1)
    return words.to(torch.int32)  # the top bit becomes the sign


def assert_fits(weight: LinearWeight, rows: list[set[int]]) -> torch.Tensor:
    """Check the contract, and return the logits."""
    x = torch.randn(len(rows), HIDDEN_SIZE)
    bitmask = bitmask_of(rows)
    out, whole = masked_head(x, weight, bitmask), linear(x, weight)
    for row, ids in enumerate(rows):
        allowed = sorted(ids)
        assert torch.equal(out[row, allowed], whole[row, allowed])
        others = out[row][torch.tensor([i not in ids for i in range(NUM_LOGITS)])]
        assert not others.isnan().any()
    return out


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FORMS), st.lists(st.sets(st.integers(0, NUM_LOGITS - 1), max_size=40), min_size=1, max_size=5))
def test_allowed_logits_have_the_bits_of_the_whole_product(ops: str, form: str, rows: list[set[int]]) -> None:
    assert_fits(head(form, ops), rows)


@pytest.mark.parametrize("form", ["int8", "int4"])
@pytest.mark.parametrize("num_rows", [1, 2, 7, 40])
def test_rows_with_few_ids_and_rows_with_many_each_get_their_own(ops: str, form: str, num_rows: int) -> None:
    few, many = {0, 31, 32, 700, NUM_LOGITS - 1}, set(range(5, NUM_LOGITS))
    weight = head(form, ops)
    out = assert_fits(weight, [few if row % 2 else many for row in range(num_rows)])
    assert (out[::2, 5:] > -torch.inf).all()
    if is_gathered(weight):
        assert (out[1::2, 1:31] == -torch.inf).all()


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_the_whole_head_is_read_where_gathering_would_cost_more(
    ops: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{1, 100}, {200, 300}]
    gathered = assert_fits(head(form, ops), rows)
    monkeypatch.setattr(module, "MOST_IDS", 3)
    monkeypatch.setattr(module, "MOST_INT4_BLOCKS", 3)
    whole = assert_fits(head(form, ops), rows)
    assert (whole > -torch.inf).all()
    assert gathered.shape == whole.shape


def test_bfloat16_rows_are_rounded_as_in_the_whole_product(ops: str) -> None:
    x = torch.randn(2, HIDDEN_SIZE).bfloat16()
    for form in FORMS[:2]:
        weight = head(form, ops)
        out = masked_head(x, weight, bitmask_of([{5, 90}, {6}]))
        assert torch.equal(out[0, [5, 90]], linear(x, weight)[0, [5, 90]].float())


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_a_row_that_allows_nothing_is_minus_infinity(ops: str, form: str) -> None:
    assert (assert_fits(head(form, ops), [set(), {3}])[0, 32:] == -torch.inf).all()


def test_a_damaged_row_gives_nan_where_it_is_allowed(ops: str) -> None:
    x = torch.randn(1, HIDDEN_SIZE)
    x[0, 3] = torch.nan
    assert masked_head(x, head("int8", ops), bitmask_of([{5, 90}]))[0, [5, 90]].isnan().all()


def test_a_vocabulary_that_fills_no_whole_word_or_block_is_served(ops: str) -> None:
    weight = head("int8", ops, 1003)
    x = torch.randn(2, HIDDEN_SIZE)
    out = masked_head(x, weight, bitmask_of([{1002}, {0, 999}], 1003))
    assert out[0, 1002] == linear(x, weight)[0, 1002]
    assert out.shape == (2, 1003)


def test_bits_behind_the_last_logit_are_ignored(ops: str) -> None:
    bitmask = bitmask_of([{3}], 1003)
    bitmask[0, -1] = -1
    weight, x = head("int8", ops, 1003), torch.randn(1, HIDDEN_SIZE)
    allowed = [3, *range(992, 1003)]
    assert torch.equal(masked_head(x, weight, bitmask)[0, allowed], linear(x, weight)[0, allowed])


def test_a_mask_of_another_width_is_refused(ops: str) -> None:
    with pytest.raises(KernelInputError, match="bitmask"):
        masked_head(torch.randn(1, HIDDEN_SIZE), head("int8", ops), torch.zeros(1, 3, dtype=torch.int32))
    with pytest.raises(KernelInputError, match=r"bitmask has dtype torch\.int64"):
        masked_head(torch.randn(1, HIDDEN_SIZE), head("int8", ops), torch.zeros(1, NUM_LOGITS // 32, dtype=torch.int64))


def test_on_a_gpu_triton_computes_what_its_linear_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    x, bitmask = torch.randn(2, 64).bfloat16(), bitmask_of([{3}, {40, 99}], 100)
    weight = DenseWeight(torch.randn(100, 64).bfloat16())
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    out = masked_head(x, weight, bitmask)
    assert (out > -torch.inf).sum(1).tolist() == [32, 32 + 4]
    assert torch.equal(out[1, [40, 99]], linear(x, weight)[1, [40, 99]].float())
