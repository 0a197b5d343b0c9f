from math import isnan

import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.testing import assert_close

NUM_Q_HEADS, NUM_KV_HEADS, BLOCK_SIZE = 6, 2, 4
NUM_HEADS = NUM_Q_HEADS + 2 * NUM_KV_HEADS


def angles(num_tokens: int, head_dim: int) -> torch.Tensor:
    return torch.outer(torch.arange(num_tokens).float() + 3, torch.logspace(0, -2, head_dim // 2))


def cos_sin(angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat((angle.cos(), angle.cos()), -1), torch.cat((-angle.sin(), angle.sin()), -1)


def caches(head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (5, BLOCK_SIZE, NUM_KV_HEADS, head_dim)
    return torch.full(shape, float("nan")), torch.full(shape, float("nan"))


def rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate with complex numbers: another way to say the same."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.polar(torch.ones_like(angle, dtype=torch.float64), angle.double()).unsqueeze(1)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize(
    ("dtype", "cache_dtype"), [*((dtype, dtype) for dtype in FLOAT_DTYPES), (torch.float32, torch.bfloat16)]
)
@pytest.mark.parametrize("head_dim", [8, 64, 96, 128])
@pytest.mark.parametrize("has_norm", [False, True])
def test_queries_and_stored_keys_are_rotated_and_values_are_stored(
    dtype: torch.dtype, cache_dtype: torch.dtype, head_dim: int, has_norm: bool
) -> None:
    qkv = torch.randn(3, NUM_HEADS * head_dim).to(dtype)
    angle = angles(3, head_dim)
    key_cache, value_cache = (cache.to(cache_dtype) for cache in caches(head_dim))
    norm = HeadNorm(torch.randn(head_dim).to(dtype), torch.randn(head_dim).to(dtype), 1e-6) if has_norm else None
    slots = torch.tensor([9, 2, 19])
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), key_cache, value_cache, slots, norm)

    q, k, v = qkv.view(3, -1, head_dim).split((NUM_Q_HEADS, NUM_KV_HEADS, NUM_KV_HEADS), 1)
    if norm is not None:
        q, k = rms_norm(q, norm.q_weight, 1e-6), rms_norm(k, norm.k_weight, 1e-6)
    assert_close(queries, rotated(q, angle), dtype)
    for token, slot in enumerate(slots.tolist()):
        block, row = divmod(slot, BLOCK_SIZE)
        assert_close(key_cache[block, row], rotated(k, angle)[token], cache_dtype)
        assert torch.equal(value_cache[block, row], v[token].to(cache_dtype))
    untouched = torch.ones(5, BLOCK_SIZE, dtype=torch.bool)
    untouched[slots // BLOCK_SIZE, slots % BLOCK_SIZE] = False
    assert key_cache[untouched].isnan().all()


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-40, -0.0, 1.00390625])
def test_values_are_rounded_to_bfloat16_as_torch_rounds(special: float) -> None:
    qkv = torch.full((1, NUM_HEADS * 64), special)
    key_cache, value_cache = (cache.to(torch.bfloat16) for cache in caches(64))
    qk_norm_rope_store(qkv, *cos_sin(angles(1, 64)), key_cache, value_cache, torch.tensor([0]))
    expected = torch.full((NUM_KV_HEADS, 64), special).to(torch.bfloat16)
    torch.testing.assert_close(value_cache[0, 0], expected, rtol=0, atol=0, equal_nan=True)
    if not isnan(special):  # of NaN the sign means nothing
        assert torch.equal(value_cache[0, 0].signbit(), expected.signbit())


E4M3_CASES = (
    # Given, stored: ties go to the even neighbor, what is too large to the largest.
    *((0.0, 0.0), (-0.0, -0.0), (1.0625, 1.0), (1.1875, 1.25), (-17.0, -16.0), (19.0, 20.0), (440.0, 448.0)),
    *((449.0, 448.0), (464.0, 448.0), (1e9, 448.0), (float("inf"), 448.0), (-float("inf"), -448.0)),
    *((2.0**-9, 2.0**-9), (2.0**-10, 0.0), (1.5 * 2.0**-9, 2.0**-8), (2.5 * 2.0**-9, 2.0**-8), (1e-40, 0.0)),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_in_e4m3_are_rounded_to_the_nearest_and_saturate(dtype: torch.dtype) -> None:
    given, stored = torch.tensor(E4M3_CASES).unbind(1)
    qkv = torch.zeros(1, NUM_HEADS, 32, dtype=dtype)
    qkv[0, -NUM_KV_HEADS:, : len(given)] = given.to(dtype)
    qkv[0, -1, -1] = torch.nan
    keys, values = (torch.zeros(5, BLOCK_SIZE, NUM_KV_HEADS, 32).to(torch.float8_e4m3fn) for _ in range(2))
    qk_norm_rope_store(qkv.flatten(1), *cos_sin(angles(1, 32)), keys, values, torch.tensor([6]))
    expected = stored.to(dtype)
    assert torch.equal(values[1, 2, :, : len(given)].float(), expected.float().expand(NUM_KV_HEADS, -1))
    assert torch.equal(values[1, 2, 0, : len(given)].float().signbit(), given.signbit())
    assert values[1, 2, -1, -1].isnan()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_a_cache_in_e4m3_holds_keys_and_values_over_their_scales(dtype: torch.dtype) -> None:
    qkv, angle, slots = torch.randn(3, NUM_HEADS * 64).to(dtype), angles(3, 64), torch.tensor([9, 2, 19])
    norm = HeadNorm(torch.randn(64).to(dtype), torch.randn(64).to(dtype), 1e-6)
    wide_keys, wide_values = (cache.to(dtype) for cache in caches(64))
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), wide_keys, wide_values, slots, norm)
    keys, values = (cache.to(torch.float8_e4m3fn) for cache in caches(64))
    scales = {"keys_scale": 0.25, "values_scale": 1.7}
    assert_close(qk_norm_rope_store(qkv, *cos_sin(angle), keys, values, slots, norm, **scales), queries, dtype)
    for cache, exact, scale in ((keys, wide_keys, 0.25), (values, wide_values, 1.7)):
        expected = (exact.flatten(0, 1)[slots].float() / scale).clamp(-448, 448)
        found = cache.flatten(0, 1).view(torch.uint8)[slots].view(torch.float8_e4m3fn).float()
        # Half a step of three bits of mantissa, or of the smallest numbers.
        torch.testing.assert_close(found, expected, rtol=2.0**-4, atol=2.0**-10)
        assert cache.float().isnan().sum() == cache.numel() - found.numel()


def test_a_scale_beside_a_cache_that_is_not_scaled_is_refused() -> None:
    given = (torch.randn(1, NUM_HEADS * 8), *cos_sin(angles(1, 8)), *caches(8), torch.tensor([1]))
    with pytest.raises(KernelInputError, match=r"keys_scale is 1\.0 and values_scale 2\.0 .* torch\.float32"):
        qk_norm_rope_store(*given, values_scale=2.0)


def test_many_tokens_have_the_bits_that_they_get_alone() -> None:
    qkv, angle = torch.randn(300, NUM_HEADS * 64), angles(300, 64)
    shape = (75, BLOCK_SIZE, NUM_KV_HEADS, 64)
    norm = HeadNorm(torch.randn(64), torch.randn(64), 1e-6)
    keys, values, keys_alone, values_alone = (torch.zeros(shape, dtype=torch.bfloat16) for _ in range(4))
    together = qk_norm_rope_store(qkv, *cos_sin(angle), keys, values, torch.arange(300), norm)
    for row in range(300):
        one = slice(row, row + 1)
        slot = torch.tensor([row])
        alone = qk_norm_rope_store(qkv[one], *cos_sin(angle[one]), keys_alone, values_alone, slot, norm)
        assert torch.equal(alone[0], together[row])
    assert torch.equal(keys, keys_alone)
    assert torch.equal(values, values_alone)


def test_slots_that_do_not_match_the_tokens_are_refused() -> None:
    angle = angles(2, 8)
    with pytest.raises(KernelInputError, match="slot_mapping"):
        qk_norm_rope_store(
            torch.randn(2, NUM_HEADS * 8), *cos_sin(angle), *caches(8), torch.tensor([1], dtype=torch.int64)
        )
