import numpy as np
import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.qk_norm_rope_store import HeadNorm
from sureact_kernels.qk_norm_rope_store import qk_norm_rope_store as reference
from sureact_kernels.testing import assert_close
from sureact_kernels.triton.qk_norm_rope_store import MAX_HEAD_DIM, qk_norm_rope_store, takes

FP8 = torch.float8_e4m3fn
NUM_Q_HEADS, NUM_KV_HEADS, NUM_BLOCKS, BLOCK_SIZE = 3, 2, 5, 4
NUM_HEADS = NUM_Q_HEADS + 2 * NUM_KV_HEADS


@pytest.fixture(autouse=True)
def nan_in_new_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel does not write shows."""
    new = torch.empty

    def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return new(shape, dtype=dtype, device=device).fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", empty)


def angles(num_tokens: int, head_dim: int) -> torch.Tensor:
    return torch.outer(torch.arange(num_tokens).float() + 3, torch.logspace(0, -2, head_dim // 2))


def cos_sin(angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat((angle.cos(), angle.cos()), -1), torch.cat((-angle.sin(), angle.sin()), -1)


def caches(head_dim: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (NUM_BLOCKS, BLOCK_SIZE, NUM_KV_HEADS, head_dim)
    return torch.full(shape, float("nan"), dtype=dtype), torch.full(shape, float("nan"), dtype=dtype)


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()


def rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate with complex numbers: another way to say the same."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.polar(torch.ones_like(angle, dtype=torch.float64), angle.double()).unsqueeze(1)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize(
    ("dtype", "cache_dtype"), [*((dtype, dtype) for dtype in FLOAT_DTYPES), (torch.float32, torch.bfloat16)]
)
@pytest.mark.parametrize("head_dim", [2, 32, 64, 80, 96, 126, 128, 256])
@pytest.mark.parametrize("has_norm", [False, True])
def test_queries_and_stored_keys_are_rotated_and_values_are_stored(
    dtype: torch.dtype, cache_dtype: torch.dtype, head_dim: int, has_norm: bool
) -> None:
    qkv = torch.randn(2, NUM_HEADS * head_dim).to(dtype)
    angle = angles(2, head_dim)
    key_cache, value_cache = caches(head_dim, cache_dtype)
    norm = HeadNorm(torch.randn(head_dim).to(dtype), torch.randn(head_dim).to(dtype), 1e-6) if has_norm else None
    slots = torch.tensor([9, 19])
    assert takes(qkv, key_cache, value_cache, *cos_sin(angle), *((norm[:2]) if norm else ()))
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), key_cache, value_cache, slots, norm)

    q, k, v = qkv.view(2, -1, head_dim).split((NUM_Q_HEADS, NUM_KV_HEADS, NUM_KV_HEADS), 1)
    if norm is not None:
        q, k = normed(q, norm.q_weight), normed(k, norm.k_weight)
    assert_close(queries, rotated(q, angle), dtype)
    for token, slot in enumerate(slots.tolist()):
        block, row = divmod(slot, BLOCK_SIZE)
        assert_close(key_cache[block, row], rotated(k, angle)[token], cache_dtype)
        assert_close(value_cache[block, row], v[token], cache_dtype)
        assert cache_dtype is not dtype or torch.equal(value_cache[block, row], v[token])
    untouched = torch.ones(NUM_BLOCKS, BLOCK_SIZE, dtype=torch.bool)
    untouched[slots // BLOCK_SIZE, slots % BLOCK_SIZE] = False
    assert key_cache[untouched].isnan().all()
    assert value_cache[untouched].isnan().all()


def e4m3_borders() -> torch.Tensor:
    """All numbers of e4m3, what lies halfway between them, the float32 numbers beside both, and what has no e4m3."""
    codes = torch.arange(127, dtype=torch.uint8).view(FP8).float()
    points = torch.cat((codes, (codes[1:] + codes[:-1]) / 2, torch.tensor([464.0, 465.0, 1e30, 1e-40])))
    beside = [points, points.nextafter(torch.tensor(torch.inf)), points.nextafter(torch.tensor(-torch.inf))]
    found = torch.cat((*beside, torch.tensor([torch.inf, torch.nan])))
    return torch.cat((found, -found, torch.zeros(-2 * len(found) % 64)))


@pytest.mark.parametrize("scale", [1.0, 0.37, 12.5])
def test_a_cache_of_e4m3_has_the_bits_of_the_reference(scale: float) -> None:
    values = e4m3_borders() * scale
    num_tokens = len(values) // 64
    # Rotating adds 0 times the other half, which would make NaN of infinity.
    finite = values.nan_to_num(nan=torch.nan, posinf=1e30, neginf=-1e30)
    heads = [finite] * (NUM_Q_HEADS + NUM_KV_HEADS) + [values] * NUM_KV_HEADS
    qkv = torch.cat([head.view(num_tokens, 64) for head in heads], dim=1)
    cos, sin = cos_sin(torch.zeros(num_tokens, 32))
    shape = (num_tokens, 1, NUM_KV_HEADS, 64)
    found, expected = torch.full((2, 2, *shape), 77, dtype=torch.uint8).view(FP8)
    given = (qkv, cos, sin), (torch.arange(num_tokens), None)
    for store, cache in ((qk_norm_rope_store, found), (reference, expected)):
        store(*given[0], cache[0], cache[1], *given[1], keys_scale=scale, values_scale=scale)
    for which in range(2):
        is_nan = expected[which].isnan()
        assert torch.equal(found[which].isnan(), is_nan)
        assert torch.equal(found[which].view(torch.uint8)[~is_nan], expected[which].view(torch.uint8)[~is_nan])
    assert found[1].float().nan_to_num(nan=0).max() == 448


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_keys_and_values_in_e4m3_are_over_their_scales(dtype: torch.dtype) -> None:
    qkv, angle = torch.randn(2, NUM_HEADS * 64).to(dtype), angles(2, 64)
    norm = HeadNorm(torch.randn(64).to(dtype), torch.randn(64).to(dtype), 1e-6)
    slots = torch.tensor([9, 19])
    wide = caches(64, dtype)
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), *wide, slots, norm)
    keys, values = (cache.to(FP8) for cache in caches(64))
    found = qk_norm_rope_store(qkv, *cos_sin(angle), keys, values, slots, norm, 0.37, 1.7)
    assert torch.equal(found, queries)
    for cache, exact, scale in ((keys, wide[0], 0.37), (values, wide[1], 1.7)):
        expected = (exact.float() / torch.tensor(scale)).to(FP8)
        assert torch.equal(cache.view(torch.uint8), expected.view(torch.uint8))


def test_strided_tensors_are_taken_as_they_are() -> None:
    qkv = torch.randn(2, NUM_HEADS * 64 + 32)
    cos, sin = cos_sin(angles(2, 64))
    both = torch.full((NUM_BLOCKS, 2, BLOCK_SIZE, NUM_KV_HEADS, 128), float("nan"))
    slots = torch.tensor([[9, 0], [2, 0]])
    weights = torch.randn(2, 128)[:, ::2]
    norm = HeadNorm(weights[0], weights[1], 1e-6)
    plain = HeadNorm(weights[0].contiguous(), weights[1].contiguous(), 1e-6)
    several = (qkv[:, : NUM_HEADS * 64], qkv[:, 1 : NUM_HEADS * 64 + 1], torch.randn(NUM_HEADS * 64, 2).T)
    for given in several:
        plain_caches = caches(64)
        expected = qk_norm_rope_store(given.contiguous(), cos, sin, *plain_caches, slots[:, 0].contiguous(), plain)
        keys, values = both[:, 0, ..., :64], both[:, 1, ..., :64]
        assert takes(given, keys, values, cos, sin)
        angle_rows = torch.stack((cos, sin), 1)
        found = qk_norm_rope_store(given, angle_rows[:, 0], angle_rows[:, 1], keys, values, slots[:, 0], norm)
        assert torch.equal(found, expected)
        for block, row in ((2, 1), (0, 2)):
            assert torch.equal(keys[block, row], plain_caches[0][block, row])
            assert torch.equal(values[block, row], plain_caches[1][block, row])
    assert both[..., 64:].isnan().all()


@pytest.mark.parametrize("head_dim", [64, 126])
def test_many_tokens_have_the_bits_that_they_get_alone(head_dim: int) -> None:
    num_tokens = NUM_BLOCKS * BLOCK_SIZE
    qkv, angle = torch.randn(num_tokens, NUM_HEADS * head_dim).bfloat16(), angles(num_tokens, head_dim)
    norm = HeadNorm(torch.randn(head_dim).bfloat16(), torch.randn(head_dim).bfloat16(), 1e-6)
    together, alone = caches(head_dim, torch.bfloat16), caches(head_dim, torch.bfloat16)
    slots = torch.arange(num_tokens)
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), *together, slots, norm)
    for rows in (slice(0, 1), slice(1, 3), slice(3, num_tokens)):
        some = qk_norm_rope_store(qkv[rows], *cos_sin(angle[rows]), *alone, slots[rows], norm)
        assert torch.equal(some, queries[rows])
    assert all(torch.equal(a, b) for a, b in zip(together, alone, strict=True))


def test_for_a_slot_outside_of_the_cache_nothing_is_stored() -> None:
    whole = torch.full((3 * NUM_BLOCKS, BLOCK_SIZE, NUM_KV_HEADS, 32), float("nan"))
    cache = whole[NUM_BLOCKS : 2 * NUM_BLOCKS]
    qkv, angle = torch.randn(4, NUM_HEADS * 32), angles(4, 32)
    slots = torch.tensor([-1, NUM_BLOCKS * BLOCK_SIZE, 2**40, -(2**40)])
    queries = qk_norm_rope_store(qkv, *cos_sin(angle), cache, cache, slots)
    assert not queries.isnan().any()
    assert whole.isnan().all()


def test_offsets_past_2_to_the_31_are_not_cut_off() -> None:
    memory = torch.from_numpy(np.zeros(2**31 + 2**20, np.float16))  # the system gives pages when they are written
    shape = (2**11 + 1, BLOCK_SIZE, NUM_KV_HEADS, 32)
    cache = memory.as_strided(shape, (2**20, NUM_KV_HEADS * 32, 32, 1))
    qkv, angle = torch.randn(1, NUM_HEADS * 32).half(), angles(1, 32)
    qk_norm_rope_store(qkv, *cos_sin(angle), cache, cache, torch.tensor([2**11 * BLOCK_SIZE + 1]))
    # Keys and values were given one cache; its slot holds the values, which programs store last.
    assert torch.equal(cache[2**11, 1], qkv.view(1, -1, 32)[0, -NUM_KV_HEADS:])


def test_no_tokens_store_nothing() -> None:
    cache = caches(64)
    assert qk_norm_rope_store(
        torch.ones(0, NUM_HEADS * 64), *cos_sin(angles(0, 64)), *cache, torch.ones(0, dtype=torch.int64)
    ).shape == (0, NUM_Q_HEADS, 64)
    assert cache[0].isnan().all()


def test_other_dtypes_sizes_and_layouts_are_not_taken() -> None:
    qkv, (cos, sin), (keys, values) = torch.ones(1, NUM_HEADS * 64), cos_sin(angles(1, 64)), caches(64)
    weight = torch.ones(64)
    assert takes(qkv, keys, values, cos, sin, weight, weight)
    assert not takes(qkv.double(), keys, values, cos, sin)
    assert not takes(qkv, keys, values, cos, sin.double())
    assert not takes(qkv, keys, values, cos, sin, weight, weight.bfloat16())
    assert not takes(qkv, keys, values.bfloat16(), cos, sin)
    assert takes(qkv, keys.to(FP8), values.to(FP8), cos, sin)
    assert not takes(qkv, keys.to(FP8), values, cos, sin)
    assert not takes(qkv, keys.to(torch.float8_e5m2), values.to(torch.float8_e5m2), cos, sin)
    assert not takes(qkv, keys, values.transpose(1, 2).contiguous().transpose(1, 2), cos, sin)
    assert not takes(qkv, *caches(MAX_HEAD_DIM + 2), cos, sin)
    assert not takes(qkv, *caches(63), cos, sin)
